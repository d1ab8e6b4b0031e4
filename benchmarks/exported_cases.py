"""Models for `exported.py`: published architectures with random weights, small enough for a CPU."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Sizes = dict[str, int]


@dataclass(frozen=True)
class Entry:
    """An input: its name, its sizes (names are symbols), and what its numbers are.

    `kind` is `"float"`, `"ids"` (integers from 0 to 9), `"mask"` (ones), or `"wave"`.
    """

    name: str
    dims: tuple[int | str, ...]
    kind: str = "float"

    def sample(self, sizes: Sizes) -> Tensor:
        """A tensor of the input's type at some sizes."""
        shape = tuple(d if isinstance(d, int) else sizes[d] for d in self.dims)
        if self.kind == "ids":
            return torch.randint(2, 10, shape)
        if self.kind == "mask":
            return torch.ones(shape, dtype=torch.int64)
        return torch.rand(shape)


@dataclass(frozen=True)
class Case:
    """A model, its inputs, and sizes to run it at; it is exported at the first of them."""

    name: str
    build: Callable[[], nn.Module]
    entries: tuple[Entry, ...]
    valuations: tuple[Sizes, ...]
    listed: bool = False
    """Whether it takes a list of images, as detectors do."""
    scripted: bool = False
    """Whether it is compiled by TorchScript first, so that its control flow is exported."""


class Flat(nn.Module):
    """A model that gives the tensors of its results in a tuple, and takes inputs by position."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.inner = case.build().eval()
        self.names = [entry.name for entry in case.entries]
        self.listed = case.listed
        self.by_name = case.name.startswith("hf-")

    def forward(self, *given: Tensor) -> tuple[Tensor, ...]:
        """The tensors of the model's results."""
        if self.listed:
            found = self.inner(list(given))
        elif self.by_name:
            found = self.inner(**dict(zip(self.names, given, strict=True)))
        else:
            found = self.inner(*given)
        leaves = torch.utils._pytree.tree_leaves(found)
        return tuple(leaf for leaf in leaves if isinstance(leaf, Tensor))


# How the libraries make a model.


def vision(name: str, **options: Any) -> Callable[[], nn.Module]:
    """A model of torchvision."""
    return lambda: importlib.import_module("torchvision.models").get_model(
        name, weights=None, **options
    )


def timm(name: str, **options: Any) -> Callable[[], nn.Module]:
    """A model of timm."""
    return lambda: importlib.import_module("timm").create_model(
        name, pretrained=False, exportable=True, **options
    )


def hf(kind: str, config: str, **options: Any) -> Callable[[], nn.Module]:
    """A model of transformers, with a small configuration."""

    def build() -> nn.Module:
        library = importlib.import_module("transformers")
        made = getattr(library, config)(**options)
        made._attn_implementation = options.get("attn_implementation", "eager")
        return getattr(library, kind)(made)

    return build


def audio(name: str, *given: Any, **options: Any) -> Callable[[], nn.Module]:
    """A model of torchaudio."""
    return lambda: getattr(importlib.import_module("torchaudio.models"), name)(*given, **options)


# Models of our own, with control flow.


class Greedy(nn.Module):
    """Decodes greedily, as many tokens as asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(16, 8)
        self.cell = nn.GRUCell(8, 8)
        self.head = nn.Linear(8, 16)

    def forward(self, tokens: Tensor, count: Tensor) -> Tensor:
        """(B,) tokens and a number n: (n, B) tokens."""
        state = torch.zeros(tokens.size(0), 8)
        found = []
        for _ in range(int(count.sum())):
            state = self.cell(self.embed(tokens), state)
            tokens = self.head(state).argmax(-1)
            found.append(tokens)
        return torch.stack(found)


class Padded(nn.Module):
    """Pads images to multiples of 16, downsamples, upsamples to the image, and crops."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 4, 4, 4)
        self.mix = nn.Conv2d(7, 5, 3, padding=1)

    def forward(self, image: Tensor) -> Tensor:
        """(B, 3, H, W) to (B, 5, H, W)."""
        h, w = image.shape[-2:]
        tall, wide = (h + 15) // 16 * 16, (w + 15) // 16 * 16
        padded = nn.functional.pad(image, (0, wide - w, 0, tall - h))
        low = self.down(padded)
        up = nn.functional.interpolate(low, size=padded.shape[-2:], mode="bilinear")
        return self.mix(torch.cat([padded, up], 1))[..., :h, :w]


class Windows(nn.Module):
    """Chunks a signal into overlapping windows, attends in each, and adds them up again."""

    def __init__(self) -> None:
        super().__init__()
        self.attend = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T) to (B, T')."""
        frames = x.unfold(1, 16, 8)
        b, n, k = frames.shape
        y, _ = self.attend(frames, frames, frames)
        folded = nn.functional.fold(y.transpose(1, 2), (1, (n - 1) * 8 + k), (1, k), stride=(1, 8))
        return folded.reshape(b, -1)


class Branches(nn.Module):
    """Halves the channels where there are more than four, in TorchScript."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, T) to (B, C', T)."""
        y = x
        while y.size(1) > 4:
            y = y[:, : y.size(1) // 2] + y[:, : y.size(1) // 2]
        if y.sum() > 0:
            y = y.squeeze(0)
        else:
            y = y + 1
        return y


class Sampler(nn.Module):
    """Boxes with a score above a threshold, joined with a grid."""

    def forward(self, scores: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(N, K), (N, K, 4): what was kept, cut to 100."""
        keep = scores > 0.5
        kept = boxes[keep]
        best, order = scores.flatten().topk(min(10, scores.numel()))
        grid = torch.stack(
            torch.meshgrid(
                torch.arange(scores.size(0)), torch.arange(scores.size(1)), indexing="ij"
            ),
            -1,
        )
        return kept[:100], boxes.flatten(0, 1)[order] * best[:, None], grid.reshape(-1, 2)


def _image(*dims: int | str) -> tuple[Entry, ...]:
    return (Entry("image", dims),)


def _text(*more: Entry) -> tuple[Entry, ...]:
    return (
        Entry("input_ids", ("B", "T"), "ids"),
        Entry("attention_mask", ("B", "T"), "mask"),
        *more,
    )


SQUARES = tuple({"B": b, "H": h, "W": w} for b, h, w in ((2, 64, 96), (3, 96, 64), (1, 128, 128)))
BATCHES = tuple({"B": b} for b in (2, 3, 1))
LINES = tuple({"B": b, "T": t} for b, t in ((2, 7), (3, 12), (1, 5)))
WAVES = tuple({"B": b, "T": t} for b, t in ((2, 1600), (3, 2345), (1, 4000)))
FRAMES = tuple({"B": b, "T": t} for b, t in ((2, 40), (3, 57), (1, 64)))
SMALL: dict[str, Any] = {
    "vocab_size": 32, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2,
    "intermediate_size": 32, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
ROOMY = _image("B", 3, "H", "W")

VISION = [
    Case(f"tv-{name}", vision(name), ROOMY, SQUARES)
    for name in ("resnet18", "mobilenet_v3_small", "densenet121", "squeezenet1_1",
                 "shufflenet_v2_x0_5", "efficientnet_b0", "convnext_tiny", "regnet_y_400mf",
                 "googlenet", "swin_t", "swin_v2_t", "alexnet", "mnasnet0_5")
] + [
    Case(f"tv-{name}", vision(name, weights_backbone=None), ROOMY, SQUARES)
    for name in ("deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large", "fcn_resnet50")
]  # fmt: skip
DETECTION = [
    Case(f"tv-{name}", vision(name, weights_backbone=None, **options), _image(3, "H", "W"),
         ({"H": 120, "W": 160}, {"H": 200, "W": 150}), listed=True)
    for name, options in (
        ("fasterrcnn_mobilenet_v3_large_320_fpn", {"min_size": 128, "max_size": 192}),
        ("ssdlite320_mobilenet_v3_large", {}),
        ("retinanet_resnet50_fpn", {"min_size": 128, "max_size": 192}),
        ("maskrcnn_resnet50_fpn", {"min_size": 128, "max_size": 192}),
        ("keypointrcnn_resnet50_fpn", {"min_size": 128, "max_size": 192}),
        ("fcos_resnet50_fpn", {"min_size": 128, "max_size": 192}),
    )
]  # fmt: skip
TIMM = [
    Case(f"timm-{name}", timm(name), _image("B", 3, size, size), BATCHES)
    for name, size in (
        ("levit_128s", 224), ("crossvit_tiny_240", 240), ("pit_ti_224", 224),
        ("xcit_nano_12_p16_224", 224), ("cait_xxs24_224", 224), ("coat_tiny", 224),
        ("mixer_s32_224", 224), ("gcvit_xxtiny", 224), ("hrnet_w18_small", 224),
        ("efficientformer_l1", 224), ("twins_pcpvt_small", 224), ("tiny_vit_5m_224", 224),
        ("volo_d1_224", 224), ("mvitv2_tiny", 224), ("eva02_tiny_patch14_224", 224),
        ("davit_tiny", 224), ("focalnet_tiny_srf", 224), ("nest_tiny", 224),
    )
] + [
    Case(f"timm-{name}", timm(name), ROOMY, SQUARES)
    for name in ("edgenext_xx_small", "poolformer_s12", "dla34", "res2net50_14w_8s", "ghostnet_100",
                 "mobilevitv2_050", "fastvit_t8", "repvgg_a0", "resnest14d", "skresnet18",
                 "cspresnet50", "dpn48b", "vovnet39a", "mobilevit_xxs")
]  # fmt: skip
LANGUAGE = [
    Case("hf-bert", hf("BertModel", "BertConfig", **SMALL), _text(), LINES),
    Case("hf-gpt2", hf("GPT2LMHeadModel", "GPT2Config", vocab_size=32, n_embd=16, n_layer=2,
                       n_head=2, use_cache=False), _text(), LINES),
    Case("hf-llama", hf("LlamaForCausalLM", "LlamaConfig", num_key_value_heads=1, use_cache=False,
                        **SMALL), _text(), LINES),
    Case("hf-mistral", hf("MistralForCausalLM", "MistralConfig", num_key_value_heads=1,
                          sliding_window=4, use_cache=False, **SMALL), _text(), LINES),
    Case("hf-gemma2", hf("Gemma2ForCausalLM", "Gemma2Config", num_key_value_heads=1, head_dim=8,
                         use_cache=False, **SMALL), _text(), LINES),
    Case("hf-t5", hf("T5EncoderModel", "T5Config", vocab_size=32, d_model=16, d_kv=8, d_ff=32,
                     num_layers=2, num_heads=2), _text(), LINES),
    Case("hf-t5-seq2seq", hf("T5Model", "T5Config", vocab_size=32, d_model=16, d_kv=8, d_ff=32,
                             num_layers=2, num_heads=2, use_cache=False),
         _text(Entry("decoder_input_ids", ("B", "U"), "ids")),
         tuple({"B": b, "T": t, "U": u} for b, t, u in ((2, 7, 4), (3, 12, 5), (1, 5, 9)))),
    Case("hf-bart", hf("BartModel", "BartConfig", vocab_size=32, d_model=16, encoder_layers=2,
                       decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
                       encoder_ffn_dim=32, decoder_ffn_dim=32, use_cache=False), _text(), LINES),
    Case("hf-deberta", hf("DebertaV2Model", "DebertaV2Config", relative_attention=True,
                          pos_att_type=["p2c", "c2p"], position_buckets=8, **SMALL),
         _text(), LINES),
    Case("hf-xlnet", hf("XLNetModel", "XLNetConfig", vocab_size=32, d_model=16, n_layer=2, n_head=2,
                        d_inner=32), _text(), LINES),
    Case("hf-mobilebert", hf("MobileBertModel", "MobileBertConfig", embedding_size=16,
                             intra_bottleneck_size=16, true_hidden_size=16, **SMALL),
         _text(), LINES),
    Case("hf-roformer", hf("RoFormerModel", "RoFormerConfig", **SMALL), _text(), LINES),
    Case("hf-funnel", hf("FunnelModel", "FunnelConfig", vocab_size=32, block_sizes=[1, 1],
                         d_model=16, n_head=2, d_head=8, d_inner=32), _text(),
         tuple({"B": b, "T": t} for b, t in ((2, 8), (3, 12), (1, 16)))),
    Case("hf-longformer", hf("LongformerModel", "LongformerConfig", attention_window=4, **SMALL),
         _text(), tuple({"B": b, "T": t} for b, t in ((2, 8), (3, 12), (1, 16)))),
    Case("hf-bigbird", hf("BigBirdModel", "BigBirdConfig", attention_type="original_full", **SMALL),
         _text(), LINES),
    Case("hf-nystromformer", hf("NystromformerModel", "NystromformerConfig", num_landmarks=4,
                                segment_means_seq_len=8, **SMALL), _text(),
         tuple({"B": b, "T": 8} for b in (2, 3, 1))),
    Case("hf-bloom", hf("BloomModel", "BloomConfig", vocab_size=32, hidden_size=16, n_layer=2,
                        n_head=2, use_cache=False), _text(), LINES),
    Case("hf-mamba", hf("MambaModel", "MambaConfig", vocab_size=32, hidden_size=16, state_size=4,
                        num_hidden_layers=2, use_cache=False),
         (Entry("input_ids", ("B", 7), "ids"),), BATCHES),
    Case("hf-mixtral", hf("MixtralForCausalLM", "MixtralConfig", num_key_value_heads=1,
                          num_local_experts=4, use_cache=False, **SMALL), _text(), LINES),
    Case("hf-perceiver", hf("PerceiverModel", "PerceiverConfig", d_model=16, num_latents=8,
                            d_latents=16, num_blocks=1, num_self_attends_per_block=2,
                            num_self_attention_heads=2, num_cross_attention_heads=2),
         (Entry("inputs", ("B", "T", 16)),), LINES),
]  # fmt: skip
PICTURED = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32,
}  # fmt: skip
SEEING = [
    Case("hf-detr", hf("DetrForObjectDetection", "DetrConfig", use_timm_backbone=False,
                       use_pretrained_backbone=False, d_model=16, encoder_layers=1,
                       decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
                       encoder_ffn_dim=32, decoder_ffn_dim=32, num_queries=5),
         (Entry("pixel_values", ("B", 3, "H", "W")),), SQUARES),
    Case("hf-deformable-detr", hf("DeformableDetrForObjectDetection", "DeformableDetrConfig",
                                  use_timm_backbone=False, use_pretrained_backbone=False,
                                  d_model=16, encoder_layers=1, decoder_layers=1,
                                  encoder_attention_heads=2, decoder_attention_heads=2,
                                  encoder_ffn_dim=32, decoder_ffn_dim=32, num_queries=5),
         (Entry("pixel_values", ("B", 3, "H", "W")),), SQUARES),
    Case("hf-yolos", hf("YolosForObjectDetection", "YolosConfig", image_size=[64, 96],
                        patch_size=16, num_detection_tokens=5, **PICTURED),
         (Entry("pixel_values", ("B", 3, 64, 96)),), BATCHES),
    Case("hf-segformer", hf("SegformerForSemanticSegmentation", "SegformerConfig",
                            hidden_sizes=[8, 8, 16, 16], num_attention_heads=[1, 1, 2, 2],
                            depths=[1, 1, 1, 1], decoder_hidden_size=16),
         (Entry("pixel_values", ("B", 3, "H", "W")),), SQUARES),
    Case("hf-dpt", hf("DPTForDepthEstimation", "DPTConfig", image_size=64, patch_size=16,
                      backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8, 8, 16, 16],
                      fusion_hidden_size=8, **PICTURED | {"num_hidden_layers": 4}),
         (Entry("pixel_values", ("B", 3, 64, 64)),), BATCHES),
    Case("hf-dinov2", hf("Dinov2Model", "Dinov2Config", image_size=64, patch_size=16, **PICTURED),
         (Entry("pixel_values", ("B", 3, "H", "W")),), SQUARES),
    Case("hf-clip", hf("CLIPVisionModel", "CLIPVisionConfig", image_size=64, patch_size=16,
                       **PICTURED), (Entry("pixel_values", ("B", 3, 64, 64)),), BATCHES),
    Case("hf-swin2sr", hf("Swin2SRForImageSuperResolution", "Swin2SRConfig", embed_dim=16,
                          depths=[2], num_heads=[2], window_size=4, image_size=32),
         (Entry("pixel_values", ("B", 3, "H", "W")),),
         tuple({"B": b, "H": h, "W": w} for b, h, w in ((2, 32, 32), (3, 30, 42)))),
]  # fmt: skip
SPEECH = [
    Case("hf-wav2vec2", hf("Wav2Vec2Model", "Wav2Vec2Config", conv_dim=[8] * 3,
                           conv_kernel=[10, 3, 2], conv_stride=[5, 2, 2], num_conv_pos_embeddings=8,
                           num_conv_pos_embedding_groups=2, **SMALL),
         (Entry("input_values", ("B", "T"), "wave"),), WAVES),
    Case("hf-wav2vec2-conformer", hf("Wav2Vec2ConformerModel", "Wav2Vec2ConformerConfig",
                                     conv_dim=[8] * 3, conv_kernel=[10, 3, 2],
                                     conv_stride=[5, 2, 2], num_conv_pos_embeddings=8,
                                     num_conv_pos_embedding_groups=2, **SMALL),
         (Entry("input_values", ("B", "T"), "wave"),), WAVES),
    Case("hf-whisper", hf("WhisperModel", "WhisperConfig", vocab_size=32, num_mel_bins=8,
                          d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
                          decoder_attention_heads=2, encoder_ffn_dim=32, decoder_ffn_dim=32,
                          max_source_positions=20, use_cache=False, pad_token_id=0,
                          bos_token_id=1, eos_token_id=2, decoder_start_token_id=1),
         (Entry("input_features", ("B", 8, 40)), Entry("decoder_input_ids", ("B", "T"), "ids")),
         LINES),
    Case("hf-encodec", hf("EncodecModel", "EncodecConfig", num_filters=4, hidden_size=16,
                          num_lstm_layers=1, codebook_size=8, upsampling_ratios=[4, 2]),
         (Entry("input_values", ("B", 1, "T"), "wave"),), WAVES),
    Case("hf-ast", hf("ASTModel", "ASTConfig", max_length=64, num_mel_bins=32, **PICTURED),
         (Entry("input_values", ("B", 64, 32)),), BATCHES),
    Case("ta-convtasnet", audio("ConvTasNet", enc_num_feats=16, msk_num_feats=8,
                                msk_num_hidden_feats=16, msk_num_layers=3, msk_num_stacks=1),
         (Entry("wave", ("B", 1, "T"), "wave"),), WAVES),
    Case("ta-conformer", audio("Conformer", 16, 2, 32, 2, 7),
         (Entry("x", ("B", 40, 16)), Entry("lengths", ("B",), "ids")), BATCHES),
    Case("ta-deepspeech", audio("DeepSpeech", 16, 32, 8), (Entry("x", ("B", 1, "T", 16)),), FRAMES),
    Case("ta-wav2letter", audio("Wav2Letter", 8, "mfcc", 16), (Entry("x", ("B", 16, "T")),),
         FRAMES),
    Case("ta-wavernn", audio("WaveRNN", upsample_scales=[2, 2, 3], n_classes=16, hop_length=12,
                             n_res_block=2, n_rnn=16, n_fc=16, n_hidden=16, n_freq=20, n_output=16),
         (Entry("wave", ("B", 1, 72)), Entry("mel", ("B", 1, 20, 10))), BATCHES),
    Case("ta-emformer", audio("Emformer", 16, 2, 32, 2, 4, right_context_length=1),
         (Entry("x", ("B", 17, 16)), Entry("lengths", ("B",), "ids")), BATCHES),
]  # fmt: skip
CONTROL = [
    Case("own-greedy", lambda: torch.jit.script(Greedy()),
         (Entry("tokens", ("B",), "ids"), Entry("count", (2,), "ids")), BATCHES, scripted=True),
    Case("own-padded", Padded, ROOMY,
         tuple({"B": b, "H": h, "W": w} for b, h, w in ((2, 30, 45), (3, 64, 20), (1, 17, 90)))),
    Case("own-windows", Windows, (Entry("x", ("B", "T")),),
         tuple({"B": b, "T": t} for b, t in ((2, 100), (3, 64), (1, 47)))),
    Case("own-branches", lambda: torch.jit.script(Branches()), (Entry("x", ("B", "C", "T")),),
         tuple({"B": b, "C": c, "T": t} for b, c, t in ((2, 16, 5), (3, 9, 4), (1, 3, 6))),
         scripted=True),
    Case("own-sampler", Sampler, (Entry("scores", ("N", "K")), Entry("boxes", ("N", "K", 4))),
         tuple({"N": n, "K": k} for n, k in ((3, 20), (5, 7), (2, 4)))),
    Case("own-lstm", lambda: nn.LSTM(8, 8, 2, batch_first=True, bidirectional=True),
         (Entry("x", ("B", "T", 8)),), LINES),
    Case("own-transformer", lambda: nn.Transformer(16, 2, 1, 1, 32, batch_first=True),
         (Entry("x", ("B", "T", 16)), Entry("y", ("B", "U", 16))),
         tuple({"B": b, "T": t, "U": u} for b, t, u in ((2, 7, 4), (3, 12, 5), (1, 5, 9)))),
]  # fmt: skip

CASES = {
    case.name: case
    for group in (CONTROL, VISION, LANGUAGE, SEEING, SPEECH, DETECTION, TIMM)
    for case in group
}
