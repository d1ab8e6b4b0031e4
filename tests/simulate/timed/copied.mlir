builtin.module {
  func.func @product(%k: i32, %c: !tawa.ptr<f16>, %a_map: !hopper.tensormap, %a: !tawa.ptr<f16>, %b_map: !hopper.tensormap, %b: !tawa.ptr<f16>) attributes {hopper.threads = 256 : i64, hopper.shared_bytes = 98400 : i64, hopper.cluster = 1 : i64, hopper.ctas_per_sm = 1 : i64, tawa.spec = "{\22entry\22: \22product\22, \22threads\22: 256, \22shared_bytes\22: 98400, \22parameters\22: [{\22kind\22: \22ScalarParam\22, \22value\22: [\22arg\22, 3], \22type\22: \22i32\22}, {\22kind\22: \22PointerParam\22, \22arg\22: 2, \22source\22: \22array\22}, {\22kind\22: \22TensorMapParam\22, \22arg\22: 0, \22element_type\22: \22f16\22, \22box\22: [1, 64, 64], \22block_shape\22: [1, 64, 64], \22swizzle\22: 128, \22offset\22: 0, \22shape\22: [2147483647, 64, 64], \22strides\22: [8, [\22min\22, [\22max\22, [\22mul\22, 1, [\22arg\22, 3]], 64], 4294967296], 1], \22fill\22: \22zero\22, \22source\22: \22array\22}, {\22kind\22: \22PointerParam\22, \22arg\22: 0, \22source\22: \22array\22}, {\22kind\22: \22TensorMapParam\22, \22arg\22: 1, \22element_type\22: \22f16\22, \22box\22: [1, 64, 64], \22block_shape\22: [1, 64, 64], \22swizzle\22: 128, \22offset\22: 0, \22shape\22: [2147483647, 64, 64], \22strides\22: [8, [\22min\22, [\22max\22, 64, 64], 4294967296], 1], \22fill\22: \22zero\22, \22source\22: \22array\22}, {\22kind\22: \22PointerParam\22, \22arg\22: 1, \22source\22: \22array\22}], \22arguments\22: [\22a\22, \22b\22, \22c\22, \22k\22], \22cluster\22: [1, 1, 1], \22grid\22: \22plain\22, \22ctas_per_sm\22: 1, \22apart\22: [[\22a\22, \22c\22], [\22b\22, \22c\22]]}"} {
    %x_y = hopper.smem at 0 : !hopper.ring<6, !hopper.tile<64x64xf16, swizzle 128, panel_rows 64>>
    %x_y_1 = hopper.smem at 49152 : !hopper.ring<6, !hopper.tile<64x64xf16, swizzle 128, panel_rows 64>>
    %x_y_full = hopper.mbarrier at 98304 arrivals 130 : !hopper.mbarrier<6>
    %x_y_empty = hopper.mbarrier at 98352 arrivals 1 : !hopper.mbarrier<6>
    "hopper.one_thread"() <{scope = "cta"}> ({
      hopper.mbarrier_init %x_y_full arrivals 130 : !hopper.mbarrier<6>
      hopper.mbarrier_init %x_y_empty arrivals 1 : !hopper.mbarrier<6>
      hopper.fence_barrier_init
      hopper.prefetch_tensormap %a_map : !hopper.tensormap
      hopper.prefetch_tensormap %b_map : !hopper.tensormap
    }) : () -> ()
    hopper.cta_sync
    "hopper.role"() <{role = "math", first_warp = 0 : i64, warps = 4 : i64, teams = 1 : i64}> ({
      %x_y_get_slot = arith.constant {loc = #tawa.span<"timed_kernels.py", 46, 0, 53, 76>} 0 : i32
      %0 = arith.constant {loc = #tawa.span<"timed_kernels.py", 49, 17, 49, 32>} 0 : i32
      %1 = arith.constant {loc = #tawa.span<"timed_kernels.py", 49, 17, 49, 32>} 64 : i32
      %previous = arith.constant {loc = #tawa.span<"timed_kernels.py", 46, 0, 53, 76>} -1 : i32
      %total = hopper.undefined {loc = #tawa.span<"timed_kernels.py", 49, 4, 52, 35>} : !hopper.frag<f32, "64x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16">
      %total_1, %2, %x_y_get_slot_1, %x_y_get_phase = scf.for %start = %0 to %k step %1 iter_args(%total_2 = %total, %previous_1 = %previous, %x_y_get_slot_2 = %x_y_get_slot, %x_y_get_phase_1 = %x_y_get_slot) -> (!hopper.frag<f32, "64x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16">, i32, i32, i32) : i32 {
        %accumulate = ew.map cmpi_ne(%start, %0) {loc = #tawa.span<"timed_kernels.py", 49, 4, 52, 35>} : (i32, i32) -> i1
        hopper.mbarrier_wait %x_y_full[%x_y_get_slot_2] parity %x_y_get_phase_1 {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : !hopper.mbarrier<6>
        hopper.fence_proxy_async {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>}
        %x = hopper.slot %x_y[%x_y_get_slot_2] {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : !hopper.ring<6, !hopper.tile<64x64xf16, swizzle 128, panel_rows 64>> -> !hopper.tile<64x64xf16, swizzle 128, panel_rows 64>
        %y = hopper.slot %x_y_1[%x_y_get_slot_2] {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : !hopper.ring<6, !hopper.tile<64x64xf16, swizzle 128, panel_rows 64>> -> !hopper.tile<64x64xf16, swizzle 128, panel_rows 64>
        %3 = arith.constant {loc = #tawa.span<"timed_kernels.py", 49, 4, 52, 35>} 1 : i32
        %4 = ew.map addi(%x_y_get_slot_2, %3) {loc = #tawa.span<"timed_kernels.py", 49, 4, 52, 35>} : (i32, i32) -> i32
        %5 = arith.constant {loc = #tawa.span<"timed_kernels.py", 49, 4, 52, 35>} 6 : i32
        %6 = ew.map cmpi_eq(%4, %5) {loc = #tawa.span<"timed_kernels.py", 49, 4, 52, 35>} : (i32, i32) -> i1
        %7 = arith.constant {loc = #tawa.span<"timed_kernels.py", 49, 4, 52, 35>} 0 : i32
        %x_y_get_slot_3 = ew.map select(%6, %7, %4) {loc = #tawa.span<"timed_kernels.py", 49, 4, 52, 35>} : (i1, i32, i32) -> i32
        %8 = ew.map extui(%6) {loc = #tawa.span<"timed_kernels.py", 49, 4, 52, 35>} : (i1) -> i32
        %x_y_get_phase_2 = ew.map xori(%x_y_get_phase_1, %8) {loc = #tawa.span<"timed_kernels.py", 49, 4, 52, 35>} : (i32, i32) -> i32
        %9 = hopper.matrix_desc %y lbo 8192 sbo 1024 {loc = #tawa.span<"timed_kernels.py", 52, 16, 52, 35>} : !hopper.tile<64x64xf16, swizzle 128, panel_rows 64>
        %10 = hopper.matrix_desc %x lbo 16 sbo 1024 {loc = #tawa.span<"timed_kernels.py", 52, 16, 52, 35>} : !hopper.tile<64x64xf16, swizzle 128, panel_rows 64>
        hopper.wgmma_fence {loc = #tawa.span<"timed_kernels.py", 52, 16, 52, 35>}
        %11 = hopper.wgmma %total_2 from 0 += %10 + 0 * %9 + 0 n 64 if %accumulate : i1 types f16, f16 tb {loc = #tawa.span<"timed_kernels.py", 52, 16, 52, 35>} : !hopper.frag<f32, "64x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16">, !hopper.matrix_desc, !hopper.matrix_desc -> !hopper.frag<f32, "64x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16">
        %12 = hopper.wgmma %11 from 0 += %10 + 2 * %9 + 128 n 64 types f16, f16 tb {loc = #tawa.span<"timed_kernels.py", 52, 16, 52, 35>} : !hopper.frag<f32, "64x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16">, !hopper.matrix_desc, !hopper.matrix_desc -> !hopper.frag<f32, "64x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16">
        %13 = hopper.wgmma %12 from 0 += %10 + 4 * %9 + 256 n 64 types f16, f16 tb {loc = #tawa.span<"timed_kernels.py", 52, 16, 52, 35>} : !hopper.frag<f32, "64x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16">, !hopper.matrix_desc, !hopper.matrix_desc -> !hopper.frag<f32, "64x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16">
        %total_3 = hopper.wgmma %13 from 0 += %10 + 6 * %9 + 384 n 64 types f16, f16 tb {loc = #tawa.span<"timed_kernels.py", 52, 16, 52, 35>} : !hopper.frag<f32, "64x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16">, !hopper.matrix_desc, !hopper.matrix_desc -> !hopper.frag<f32, "64x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16">
        hopper.wgmma_commit {loc = #tawa.span<"timed_kernels.py", 52, 16, 52, 35>}
        hopper.wgmma_wait 1 {loc = #tawa.span<"timed_kernels.py", 52, 16, 52, 35>}
        %14 = arith.constant {loc = #tawa.span<"timed_kernels.py", 52, 16, 52, 35>} 0 : i32
        %15 = ew.map cmpi_sge(%previous_1, %14) {loc = #tawa.span<"timed_kernels.py", 52, 16, 52, 35>} : (i32, i32) -> i1
        scf.if %15 {
          "hopper.one_thread"() <{scope = "group"}> ({
            hopper.mbarrier_arrive %x_y_empty[%previous_1] {loc = #tawa.span<"timed_kernels.py", 52, 16, 52, 35>} : !hopper.mbarrier<6>
          }) {loc = #tawa.span<"timed_kernels.py", 52, 16, 52, 35>} : () -> ()
        }{loc = #tawa.span<"timed_kernels.py", 52, 16, 52, 35>}
        scf.yield {loc = #tawa.span<"timed_kernels.py", 49, 4, 52, 35>} %total_3, %x_y_get_slot_2, %x_y_get_slot_3, %x_y_get_phase_2 : !hopper.frag<f32, "64x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16">, i32, i32, i32
      } {loc = #tawa.span<"timed_kernels.py", 49, 4, 52, 35>}
      %16 = hopper.wgmma_wait 0, %total_1 : !hopper.frag<f32, "64x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16"> -> !hopper.frag<f32, "64x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16"> {loc = #tawa.span<"timed_kernels.py", 52, 16, 52, 35>}
      %ran = ew.map cmpi_slt(%0, %k) {loc = #tawa.span<"timed_kernels.py", 46, 0, 53, 76>} : (i32, i32) -> i1
      %total_4 = hopper.zero_unless %ran, %16 {loc = #tawa.span<"timed_kernels.py", 46, 0, 53, 76>} : !hopper.frag<f32, "64x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16"> -> !hopper.frag<f32, "64x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16">
      %17 = arith.constant {loc = #tawa.span<"timed_kernels.py", 52, 16, 52, 35>} 0 : i32
      %18 = ew.map cmpi_sge(%2, %17) {loc = #tawa.span<"timed_kernels.py", 52, 16, 52, 35>} : (i32, i32) -> i1
      scf.if %18 {
        "hopper.one_thread"() <{scope = "group"}> ({
          hopper.mbarrier_arrive %x_y_empty[%2] {loc = #tawa.span<"timed_kernels.py", 52, 16, 52, 35>} : !hopper.mbarrier<6>
        }) {loc = #tawa.span<"timed_kernels.py", 52, 16, 52, 35>} : () -> ()
      }{loc = #tawa.span<"timed_kernels.py", 52, 16, 52, 35>}
      %19 = ew.map truncf(%total_4) {loc = #tawa.span<"timed_kernels.py", 53, 55, 53, 75>} : (!hopper.frag<f32, "64x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16">) -> !hopper.frag<f16, "64x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16">
      %20 = hopper.swap_bits %19 lanes 1 registers 4 {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>} : !hopper.frag<f16, "64x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16"> -> !hopper.frag<f16, "64x64: 8@1*1 2@0*8 2@1*32 | 4@1*8 8@0*1 | 4@0*16">
      %21 = hopper.swap_bits %20 lanes 2 registers 8 {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>} : !hopper.frag<f16, "64x64: 8@1*1 2@0*8 2@1*32 | 4@1*8 8@0*1 | 4@0*16"> -> !hopper.frag<f16, "64x64: 8@1*1 2@0*8 2@1*32 | 4@1*8 8@0*1 | 4@0*16">
      %22 = "hopper.rearrange"(%21) <{source = array<i64: 0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15, 16, 17, 20, 21, 24, 25, 28, 29, 18, 19, 22, 23, 26, 27, 30, 31>}> {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>} : (!hopper.frag<f16, "64x64: 8@1*1 2@0*8 2@1*32 | 4@1*8 8@0*1 | 4@0*16">) -> !hopper.frag<f16, "64x64: 8@1*1 2@0*8 2@1*32 | 4@1*8 8@0*1 | 4@0*16">
      %23 = hopper.fill %c {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>} : !tawa.ptr<f16> -> !hopper.frag<!tawa.ptr<f16>, "64x1: 2@0*8 | 4* 8@0*1 | 4@0*16">
      %rows = hopper.coordinate 0 from 0 {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>} : !hopper.frag<i32, "64: 2@0*8 | 4* 8@0*1 | 4@0*16">
      %24 = "hopper.rearrange"(%rows) <{source = array<i64: 0, 1>}> {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>} : (!hopper.frag<i32, "64: 2@0*8 | 4* 8@0*1 | 4@0*16">) -> !hopper.frag<i32, "64x1: 2@0*8 | 4* 8@0*1 | 4@0*16">
      %25 = hopper.fill %1 {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>} : i32 -> !hopper.frag<i32, "64x1: 2@0*8 | 4* 8@0*1 | 4@0*16">
      %26 = ew.map muli(%24, %25) {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>} : (!hopper.frag<i32, "64x1: 2@0*8 | 4* 8@0*1 | 4@0*16">, !hopper.frag<i32, "64x1: 2@0*8 | 4* 8@0*1 | 4@0*16">) -> !hopper.frag<i32, "64x1: 2@0*8 | 4* 8@0*1 | 4@0*16">
      %27 = ew.map addptr(%23, %26) {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>} : (!hopper.frag<!tawa.ptr<f16>, "64x1: 2@0*8 | 4* 8@0*1 | 4@0*16">, !hopper.frag<i32, "64x1: 2@0*8 | 4* 8@0*1 | 4@0*16">) -> !hopper.frag<!tawa.ptr<f16>, "64x1: 2@0*8 | 4* 8@0*1 | 4@0*16">
      %28 = "hopper.rearrange"(%27) <{source = array<i64: 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1>}> {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>} : (!hopper.frag<!tawa.ptr<f16>, "64x1: 2@0*8 | 4* 8@0*1 | 4@0*16">) -> !hopper.frag<!tawa.ptr<f16>, "64x64: 8@1*1 2@0*8 2@1*32 | 4@1*8 8@0*1 | 4@0*16">
      %rows_1 = hopper.coordinate 0 from 0 {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>} : !hopper.frag<i32, "64: 8@0*1 2@0*32 | 4@0*8 8* | 4*">
      %29 = "hopper.rearrange"(%rows_1) <{source = array<i64: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15>}> {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>} : (!hopper.frag<i32, "64: 8@0*1 2@0*32 | 4@0*8 8* | 4*">) -> !hopper.frag<i32, "1x64: 8@1*1 2@1*32 | 4@1*8 8* | 4*">
      %30 = "hopper.rearrange"(%29) <{source = array<i64: 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15>}> {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>} : (!hopper.frag<i32, "1x64: 8@1*1 2@1*32 | 4@1*8 8* | 4*">) -> !hopper.frag<i32, "64x64: 8@1*1 2@0*8 2@1*32 | 4@1*8 8@0*1 | 4@0*16">
      %31 = ew.map addptr(%28, %30) {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>} : (!hopper.frag<!tawa.ptr<f16>, "64x64: 8@1*1 2@0*8 2@1*32 | 4@1*8 8@0*1 | 4@0*16">, !hopper.frag<i32, "64x64: 8@1*1 2@0*8 2@1*32 | 4@1*8 8@0*1 | 4@0*16">) -> !hopper.frag<!tawa.ptr<f16>, "64x64: 8@1*1 2@0*8 2@1*32 | 4@1*8 8@0*1 | 4@0*16">
      %32 = "hopper.anchored"(%31) <{anchor = array<i64: 0, 0, 0, 0, 0, 0, 0, 0, 8, 8, 8, 8, 8, 8, 8, 8, 0, 0, 0, 0, 0, 0, 0, 0, 8, 8, 8, 8, 8, 8, 8, 8>, distance = array<i64: 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 32, 33, 34, 35, 36, 37, 38, 39, 32, 33, 34, 35, 36, 37, 38, 39>}> {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>} : (!hopper.frag<!tawa.ptr<f16>, "64x64: 8@1*1 2@0*8 2@1*32 | 4@1*8 8@0*1 | 4@0*16">) -> !hopper.frag<!tawa.ptr<f16>, "64x64: 8@1*1 2@0*8 2@1*32 | 4@1*8 8@0*1 | 4@0*16">
      "hopper.global_store"(%32, %22) <{vector = 8 : i64, operandSegmentSizes = array<i32: 1, 1, 0>}> {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>} : (!hopper.frag<!tawa.ptr<f16>, "64x64: 8@1*1 2@0*8 2@1*32 | 4@1*8 8@0*1 | 4@0*16">, !hopper.frag<f16, "64x64: 8@1*1 2@0*8 2@1*32 | 4@1*8 8@0*1 | 4@0*16">) -> ()
    }) : () -> ()
    "hopper.role"() <{role = "load", first_warp = 4 : i64, warps = 4 : i64, teams = 1 : i64, gives}> ({
      %x_y_put_slot = arith.constant {loc = #tawa.span<"timed_kernels.py", 46, 0, 53, 76>} 0 : i32
      %33 = arith.constant {loc = #tawa.span<"timed_kernels.py", 47, 27, 47, 42>} 0 : i64
      %34 = arith.constant {loc = #tawa.span<"timed_kernels.py", 47, 27, 47, 42>} 0 : i32
      %35 = arith.constant {loc = #tawa.span<"timed_kernels.py", 49, 17, 49, 32>} 0 : i32
      %36 = arith.constant {loc = #tawa.span<"timed_kernels.py", 49, 17, 49, 32>} 64 : i32
      %rows_2 = hopper.coordinate 0 from 0 {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : !hopper.frag<i32, "64: 4@0*16 | 8* 4@0*1 | 4@0*4">
      %rows_3 = hopper.coordinate 0 from 0 {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : !hopper.frag<i32, "64: 8@0*1 | 8@0*8 4* | 4*">
      %x_y_put_slot_1, %x_y_put_phase = scf.for %start_1 = %35 to %k step %36 iter_args(%x_y_put_slot_2 = %x_y_put_slot, %x_y_put_phase_1 = %x_y_put_slot) -> (i32, i32) : i32 {
        %37 = ew.map muli(%34, %k) {loc = #tawa.span<"timed_kernels.py", 50, 24, 50, 41>} : (i32, i32) -> i32
        %38 = ew.map extsi(%37) {loc = #tawa.span<"timed_kernels.py", 50, 20, 50, 41>} : (i32) -> i64
        %39 = ew.map addi(%33, %38) {loc = #tawa.span<"timed_kernels.py", 50, 20, 50, 41>} : (i64, i64) -> i64
        %40 = ew.map addi(%start_1, %34) {loc = #tawa.span<"timed_kernels.py", 50, 45, 50, 58>} : (i32, i32) -> i32
        %41 = ew.map extsi(%40) {loc = #tawa.span<"timed_kernels.py", 50, 20, 50, 68>} : (i32) -> i64
        %42 = ew.map addi(%39, %41) {loc = #tawa.span<"timed_kernels.py", 50, 20, 50, 68>} : (i64, i64) -> i64
        %43 = arith.constant {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} 1 : i64
        %44 = ew.map extsi(%k) {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (i32) -> i64
        %45 = ew.map muli(%43, %44) {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (i64, i64) -> i64
        %46 = arith.constant {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} 64 : i64
        %47 = arith.constant {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} 4294967296 : i64
        %48 = ew.map maxsi(%45, %46) {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (i64, i64) -> i64
        %49 = ew.map minsi(%48, %47) {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (i64, i64) -> i64
        %50 = ew.map cmpi_eq(%45, %49) {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (i64, i64) -> i1
        %51 = arith.constant {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} 8 : i64
        %52 = ew.map divsi(%42, %51) {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (i64, i64) -> i64
        %53 = ew.map muli(%52, %51) {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (i64, i64) -> i64
        %54 = ew.map cmpi_eq(%53, %42) {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (i64, i64) -> i1
        %55 = arith.constant {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} 0 : i64
        %56 = ew.map cmpi_sge(%42, %55) {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (i64, i64) -> i1
        %57 = arith.constant {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} 2147483647 : i64
        %58 = ew.map cmpi_slt(%52, %57) {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (i64, i64) -> i1
        %59 = ew.map trunci(%52) {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (i64) -> i32
        %60 = ew.map trunci(%55) {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (i64) -> i32
        %61 = ew.map andi(%50, %54) {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (i1, i1) -> i1
        %62 = ew.map andi(%61, %56) {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (i1, i1) -> i1
        %63 = ew.map andi(%62, %58) {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (i1, i1) -> i1
        %64 = ew.map muli(%40, %36) {loc = #tawa.span<"timed_kernels.py", 51, 24, 51, 52>} : (i32, i32) -> i32
        %65 = ew.map extsi(%64) {loc = #tawa.span<"timed_kernels.py", 51, 20, 51, 52>} : (i32) -> i64
        %66 = ew.map addi(%33, %65) {loc = #tawa.span<"timed_kernels.py", 51, 20, 51, 52>} : (i64, i64) -> i64
        %67 = ew.map extsi(%34) {loc = #tawa.span<"timed_kernels.py", 51, 20, 51, 71>} : (i32) -> i64
        %68 = ew.map addi(%66, %67) {loc = #tawa.span<"timed_kernels.py", 51, 20, 51, 71>} : (i64, i64) -> i64
        %69 = arith.constant {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} 8 : i64
        %70 = ew.map divsi(%68, %69) {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (i64, i64) -> i64
        %71 = ew.map muli(%70, %69) {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (i64, i64) -> i64
        %72 = ew.map cmpi_eq(%71, %68) {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (i64, i64) -> i1
        %73 = arith.constant {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} 0 : i64
        %74 = ew.map cmpi_sge(%68, %73) {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (i64, i64) -> i1
        %75 = arith.constant {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} 2147483647 : i64
        %76 = ew.map cmpi_slt(%70, %75) {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (i64, i64) -> i1
        %77 = ew.map trunci(%70) {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (i64) -> i32
        %78 = ew.map trunci(%73) {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (i64) -> i32
        %79 = ew.map andi(%72, %74) {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (i1, i1) -> i1
        %80 = ew.map andi(%79, %76) {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (i1, i1) -> i1
        %81 = arith.constant {loc = #tawa.span<"timed_kernels.py", 49, 4, 52, 35>} 1 : i32
        %82 = ew.map addi(%x_y_put_slot_2, %81) {loc = #tawa.span<"timed_kernels.py", 49, 4, 52, 35>} : (i32, i32) -> i32
        %83 = arith.constant {loc = #tawa.span<"timed_kernels.py", 49, 4, 52, 35>} 6 : i32
        %84 = ew.map cmpi_eq(%82, %83) {loc = #tawa.span<"timed_kernels.py", 49, 4, 52, 35>} : (i32, i32) -> i1
        %85 = arith.constant {loc = #tawa.span<"timed_kernels.py", 49, 4, 52, 35>} 0 : i32
        %x_y_put_slot_3 = ew.map select(%84, %85, %82) {loc = #tawa.span<"timed_kernels.py", 49, 4, 52, 35>} : (i1, i32, i32) -> i32
        %86 = ew.map extui(%84) {loc = #tawa.span<"timed_kernels.py", 49, 4, 52, 35>} : (i1) -> i32
        %x_y_put_phase_2 = ew.map xori(%x_y_put_phase_1, %86) {loc = #tawa.span<"timed_kernels.py", 49, 4, 52, 35>} : (i32, i32) -> i32
        %87 = arith.constant {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} 1 : i32
        %88 = ew.map xori(%x_y_put_phase_1, %87) {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (i32, i32) -> i32
        hopper.mbarrier_wait %x_y_empty[%x_y_put_slot_2] parity %88 {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : !hopper.mbarrier<6>
        %x_1 = hopper.slot %x_y[%x_y_put_slot_2] {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : !hopper.ring<6, !hopper.tile<64x64xf16, swizzle 128, panel_rows 64>> -> !hopper.tile<64x64xf16, swizzle 128, panel_rows 64>
        %y_1 = hopper.slot %x_y_1[%x_y_put_slot_2] {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : !hopper.ring<6, !hopper.tile<64x64xf16, swizzle 128, panel_rows 64>> -> !hopper.tile<64x64xf16, swizzle 128, panel_rows 64>
        scf.if %63 {
          "hopper.one_thread"() <{scope = "team"}> ({
            hopper.mbarrier_expect %x_y_full[%x_y_put_slot_2] bytes 8192 {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : !hopper.mbarrier<6>
            %89 = arith.constant {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} 0 : i32
            %90 = hopper.subtile %x_1[%89, 0] {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : !hopper.tile<64x64xf16, swizzle 128, panel_rows 64> -> !hopper.tile<64x64xf16, swizzle 128, panel_rows 64>
            hopper.tma_load %a_map[%59, %60, %60] into %90 signal %x_y_full[%x_y_put_slot_2] {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : !hopper.tensormap, !hopper.tile<64x64xf16, swizzle 128, panel_rows 64>, !hopper.mbarrier<6>
          }) {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : () -> ()
        } else {
          "hopper.one_thread"() <{scope = "team"}> ({
            hopper.mbarrier_expect %x_y_full[%x_y_put_slot_2] bytes 0 {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : !hopper.mbarrier<6>
          }) {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : () -> ()
          %91 = hopper.fill %a {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : !tawa.ptr<f16> -> !hopper.frag<!tawa.ptr<f16>, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">
          %92 = "hopper.rearrange"(%rows_2) <{source = array<i64: 0, 1, 2, 3>}> {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (!hopper.frag<i32, "64: 4@0*16 | 8* 4@0*1 | 4@0*4">) -> !hopper.frag<i32, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">
          %93 = hopper.fill %k {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : i32 -> !hopper.frag<i32, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">
          %94 = ew.map muli(%92, %93) {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (!hopper.frag<i32, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">, !hopper.frag<i32, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">) -> !hopper.frag<i32, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">
          %95 = ew.map addptr(%91, %94) {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (!hopper.frag<!tawa.ptr<f16>, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">, !hopper.frag<i32, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">) -> !hopper.frag<!tawa.ptr<f16>, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">
          %96 = "hopper.rearrange"(%95) <{source = array<i64: 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3>}> {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (!hopper.frag<!tawa.ptr<f16>, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">) -> !hopper.frag<!tawa.ptr<f16>, "64x64: 8@1*1 4@0*16 | 8@1*8 4@0*1 | 4@0*4">
          %97 = hopper.fill %start_1 {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : i32 -> !hopper.frag<i32, "64: 8@0*1 | 8@0*8 4* | 4*">
          %98 = ew.map addi(%97, %rows_3) {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (!hopper.frag<i32, "64: 8@0*1 | 8@0*8 4* | 4*">, !hopper.frag<i32, "64: 8@0*1 | 8@0*8 4* | 4*">) -> !hopper.frag<i32, "64: 8@0*1 | 8@0*8 4* | 4*">
          %99 = "hopper.rearrange"(%98) <{source = array<i64: 0, 1, 2, 3, 4, 5, 6, 7>}> {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (!hopper.frag<i32, "64: 8@0*1 | 8@0*8 4* | 4*">) -> !hopper.frag<i32, "1x64: 8@1*1 | 8@1*8 4* | 4*">
          %100 = "hopper.rearrange"(%99) <{source = array<i64: 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7>}> {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (!hopper.frag<i32, "1x64: 8@1*1 | 8@1*8 4* | 4*">) -> !hopper.frag<i32, "64x64: 8@1*1 4@0*16 | 8@1*8 4@0*1 | 4@0*4">
          %101 = ew.map addptr(%96, %100) {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (!hopper.frag<!tawa.ptr<f16>, "64x64: 8@1*1 4@0*16 | 8@1*8 4@0*1 | 4@0*4">, !hopper.frag<i32, "64x64: 8@1*1 4@0*16 | 8@1*8 4@0*1 | 4@0*4">) -> !hopper.frag<!tawa.ptr<f16>, "64x64: 8@1*1 4@0*16 | 8@1*8 4@0*1 | 4@0*4">
          %102 = "hopper.anchored"(%101) <{anchor = array<i64: 0, 0, 0, 0, 0, 0, 0, 0, 8, 8, 8, 8, 8, 8, 8, 8, 16, 16, 16, 16, 16, 16, 16, 16, 24, 24, 24, 24, 24, 24, 24, 24>, distance = array<i64: 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7>}> {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (!hopper.frag<!tawa.ptr<f16>, "64x64: 8@1*1 4@0*16 | 8@1*8 4@0*1 | 4@0*4">) -> !hopper.frag<!tawa.ptr<f16>, "64x64: 8@1*1 4@0*16 | 8@1*8 4@0*1 | 4@0*4">
          hopper.copy_async %102 into %x_1 vector 8 {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : !hopper.frag<!tawa.ptr<f16>, "64x64: 8@1*1 4@0*16 | 8@1*8 4@0*1 | 4@0*4">, !hopper.tile<64x64xf16, swizzle 128, panel_rows 64>
        }{loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>}
        scf.if %80 {
          "hopper.one_thread"() <{scope = "team"}> ({
            hopper.mbarrier_expect %x_y_full[%x_y_put_slot_2] bytes 8192 {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : !hopper.mbarrier<6>
            %103 = arith.constant {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} 0 : i32
            %104 = hopper.subtile %y_1[%103, 0] {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : !hopper.tile<64x64xf16, swizzle 128, panel_rows 64> -> !hopper.tile<64x64xf16, swizzle 128, panel_rows 64>
            hopper.tma_load %b_map[%77, %78, %78] into %104 signal %x_y_full[%x_y_put_slot_2] {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : !hopper.tensormap, !hopper.tile<64x64xf16, swizzle 128, panel_rows 64>, !hopper.mbarrier<6>
          }) {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : () -> ()
        } else {
          "hopper.one_thread"() <{scope = "team"}> ({
            hopper.mbarrier_expect %x_y_full[%x_y_put_slot_2] bytes 0 {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : !hopper.mbarrier<6>
          }) {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : () -> ()
          %105 = hopper.fill %b {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : !tawa.ptr<f16> -> !hopper.frag<!tawa.ptr<f16>, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">
          %106 = hopper.fill %start_1 {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : i32 -> !hopper.frag<i32, "64: 4@0*16 | 8* 4@0*1 | 4@0*4">
          %107 = ew.map addi(%106, %rows_2) {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (!hopper.frag<i32, "64: 4@0*16 | 8* 4@0*1 | 4@0*4">, !hopper.frag<i32, "64: 4@0*16 | 8* 4@0*1 | 4@0*4">) -> !hopper.frag<i32, "64: 4@0*16 | 8* 4@0*1 | 4@0*4">
          %108 = "hopper.rearrange"(%107) <{source = array<i64: 0, 1, 2, 3>}> {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (!hopper.frag<i32, "64: 4@0*16 | 8* 4@0*1 | 4@0*4">) -> !hopper.frag<i32, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">
          %109 = hopper.fill %36 {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : i32 -> !hopper.frag<i32, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">
          %110 = ew.map muli(%108, %109) {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (!hopper.frag<i32, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">, !hopper.frag<i32, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">) -> !hopper.frag<i32, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">
          %111 = ew.map addptr(%105, %110) {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (!hopper.frag<!tawa.ptr<f16>, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">, !hopper.frag<i32, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">) -> !hopper.frag<!tawa.ptr<f16>, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">
          %112 = "hopper.rearrange"(%111) <{source = array<i64: 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3>}> {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (!hopper.frag<!tawa.ptr<f16>, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">) -> !hopper.frag<!tawa.ptr<f16>, "64x64: 8@1*1 4@0*16 | 8@1*8 4@0*1 | 4@0*4">
          %113 = "hopper.rearrange"(%rows_3) <{source = array<i64: 0, 1, 2, 3, 4, 5, 6, 7>}> {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (!hopper.frag<i32, "64: 8@0*1 | 8@0*8 4* | 4*">) -> !hopper.frag<i32, "1x64: 8@1*1 | 8@1*8 4* | 4*">
          %114 = "hopper.rearrange"(%113) <{source = array<i64: 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7>}> {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (!hopper.frag<i32, "1x64: 8@1*1 | 8@1*8 4* | 4*">) -> !hopper.frag<i32, "64x64: 8@1*1 4@0*16 | 8@1*8 4@0*1 | 4@0*4">
          %115 = ew.map addptr(%112, %114) {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (!hopper.frag<!tawa.ptr<f16>, "64x64: 8@1*1 4@0*16 | 8@1*8 4@0*1 | 4@0*4">, !hopper.frag<i32, "64x64: 8@1*1 4@0*16 | 8@1*8 4@0*1 | 4@0*4">) -> !hopper.frag<!tawa.ptr<f16>, "64x64: 8@1*1 4@0*16 | 8@1*8 4@0*1 | 4@0*4">
          %116 = "hopper.anchored"(%115) <{anchor = array<i64: 0, 0, 0, 0, 0, 0, 0, 0, 8, 8, 8, 8, 8, 8, 8, 8, 16, 16, 16, 16, 16, 16, 16, 16, 24, 24, 24, 24, 24, 24, 24, 24>, distance = array<i64: 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7>}> {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (!hopper.frag<!tawa.ptr<f16>, "64x64: 8@1*1 4@0*16 | 8@1*8 4@0*1 | 4@0*4">) -> !hopper.frag<!tawa.ptr<f16>, "64x64: 8@1*1 4@0*16 | 8@1*8 4@0*1 | 4@0*4">
          hopper.copy_async %116 into %y_1 vector 8 {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : !hopper.frag<!tawa.ptr<f16>, "64x64: 8@1*1 4@0*16 | 8@1*8 4@0*1 | 4@0*4">, !hopper.tile<64x64xf16, swizzle 128, panel_rows 64>
        }{loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>}
        hopper.copy_arrive %x_y_full[%x_y_put_slot_2] {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : !hopper.mbarrier<6>
        scf.yield {loc = #tawa.span<"timed_kernels.py", 49, 4, 52, 35>} %x_y_put_slot_3, %x_y_put_phase_2 : i32, i32
      } {loc = #tawa.span<"timed_kernels.py", 49, 4, 52, 35>}
    }) : () -> ()
    func.return
  }
}