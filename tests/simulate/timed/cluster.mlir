builtin.module {
  func.func @gemm(%M: i32, %N: i32, %K: i32, %c_map: !hopper.tensormap, %a_desc_map: !hopper.tensormap, %b_desc_map: !hopper.tensormap) attributes {hopper.threads = 384 : i64, hopper.shared_bytes = 131120 : i64, hopper.cluster = 2 : i64, hopper.ctas_per_sm = 1 : i64, tawa.spec = "{\22entry\22: \22gemm\22, \22threads\22: 384, \22shared_bytes\22: 131120, \22parameters\22: [{\22kind\22: \22ScalarParam\22, \22value\22: [\22arg\22, 3], \22type\22: \22i32\22}, {\22kind\22: \22ScalarParam\22, \22value\22: [\22arg\22, 4], \22type\22: \22i32\22}, {\22kind\22: \22ScalarParam\22, \22value\22: [\22arg\22, 5], \22type\22: \22i32\22}, {\22kind\22: \22TensorMapParam\22, \22arg\22: 2, \22element_type\22: \22f16\22, \22box\22: [64, 64], \22block_shape\22: [128, 128], \22swizzle\22: 128, \22stored\22: true}, {\22kind\22: \22TensorMapParam\22, \22arg\22: 0, \22element_type\22: \22f16\22, \22box\22: [64, 64], \22block_shape\22: [128, 64], \22swizzle\22: 128}, {\22kind\22: \22TensorMapParam\22, \22arg\22: 1, \22element_type\22: \22f16\22, \22box\22: [64, 64], \22block_shape\22: [128, 64], \22swizzle\22: 128}], \22arguments\22: [\22a_desc\22, \22b_desc\22, \22c\22, \22M\22, \22N\22, \22K\22], \22cluster\22: [2, 1, 1], \22grid\22: \22plain\22, \22ctas_per_sm\22: 1, \22apart\22: [[\22a_desc\22, \22c\22], [\22b_desc\22, \22c\22]]}"} {
    %a_b = hopper.smem at 0 : !hopper.ring<3, !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>>
    %a_b_1 = hopper.smem at 49152 : !hopper.ring<3, !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>>
    %a_b_full = hopper.mbarrier at 131072 arrivals 1 : !hopper.mbarrier<3>
    %a_b_empty = hopper.mbarrier at 131096 arrivals 4 : !hopper.mbarrier<3>
    %staging = hopper.smem at 98304 : !hopper.ring<2, !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>>
    "hopper.one_thread"() <{scope = "cta"}> ({
      hopper.mbarrier_init %a_b_full arrivals 1 : !hopper.mbarrier<3>
      hopper.mbarrier_init %a_b_empty arrivals 4 : !hopper.mbarrier<3>
      hopper.fence_barrier_init
      hopper.prefetch_tensormap %c_map : !hopper.tensormap
      hopper.prefetch_tensormap %a_desc_map : !hopper.tensormap
      hopper.prefetch_tensormap %b_desc_map : !hopper.tensormap
    }) : () -> ()
    hopper.cluster_sync
    "hopper.role"() <{role = "math", first_warp = 0 : i64, warps = 8 : i64, teams = 1 : i64, registers = 232 : i64}> ({
      %a_b_get_slot = arith.constant {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} 0 : i32
      %along = hopper.block_id 0 {loc = #tawa.span<"gemm_kernels.py", 79, 20, 79, 36>}
      %0 = arith.constant {loc = #tawa.span<"standard.py", 42, 12, 42, 25>} 127 : i32
      %1 = ew.map addi(%M, %0) {loc = #tawa.span<"standard.py", 42, 12, 42, 25>} : (i32, i32) -> i32
      %2 = arith.constant {loc = #tawa.span<"standard.py", 42, 11, 42, 33>} 128 : i32
      %num_m = ew.map divsi(%1, %2) {loc = #tawa.span<"standard.py", 42, 11, 42, 33>} : (i32, i32) -> i32
      %3 = ew.map addi(%N, %0) {loc = #tawa.span<"standard.py", 42, 12, 42, 25>} : (i32, i32) -> i32
      %num_n = ew.map divsi(%3, %2) {loc = #tawa.span<"standard.py", 42, 11, 42, 33>} : (i32, i32) -> i32
      %4 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 83, 24, 83, 39>} 8 : i32
      %5 = ew.map muli(%4, %num_n) {loc = #tawa.span<"gemm_kernels.py", 83, 24, 83, 39>} : (i32, i32) -> i32
      %6 = ew.map divsi(%along, %5) {loc = #tawa.span<"gemm_kernels.py", 83, 16, 83, 40>} : (i32, i32) -> i32
      %begin = ew.map muli(%6, %4) {loc = #tawa.span<"gemm_kernels.py", 83, 16, 83, 50>} : (i32, i32) -> i32
      %7 = ew.map subi(%num_m, %begin) {loc = #tawa.span<"gemm_kernels.py", 84, 28, 84, 42>} : (i32, i32) -> i32
      %group = ew.map minsi(%7, %4) {loc = #tawa.span<"gemm_kernels.py", 84, 24, 84, 52>} : (i32, i32) -> i32
      %inside = ew.map remsi(%along, %5) {loc = #tawa.span<"gemm_kernels.py", 84, 54, 84, 77>} : (i32, i32) -> i32
      %8 = ew.map remsi(%inside, %group) {loc = #tawa.span<"gemm_kernels.py", 85, 32, 85, 46>} : (i32, i32) -> i32
      %along_1 = ew.map addi(%begin, %8) {loc = #tawa.span<"gemm_kernels.py", 85, 24, 85, 46>} : (i32, i32) -> i32
      %across = ew.map divsi(%inside, %group) {loc = #tawa.span<"gemm_kernels.py", 85, 48, 85, 63>} : (i32, i32) -> i32
      %off_m = ew.map muli(%along_1, %2) {loc = #tawa.span<"gemm_kernels.py", 87, 19, 87, 35>} : (i32, i32) -> i32
      %off_n = ew.map muli(%across, %2) {loc = #tawa.span<"gemm_kernels.py", 87, 37, 87, 53>} : (i32, i32) -> i32
      %9 = arith.constant {loc = #tawa.span<"standard.py", 42, 12, 42, 25>} 63 : i32
      %10 = ew.map addi(%K, %9) {loc = #tawa.span<"standard.py", 42, 12, 42, 25>} : (i32, i32) -> i32
      %11 = arith.constant {loc = #tawa.span<"standard.py", 42, 11, 42, 33>} 64 : i32
      %last = ew.map divsi(%10, %11) {loc = #tawa.span<"standard.py", 42, 11, 42, 33>} : (i32, i32) -> i32
      %first = arith.constant {loc = #tawa.span<"gemm_kernels.py", 90, 4, 90, 40>} 0 : i32
      %12 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 96, 13, 96, 31>} 1 : i32
      %13 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} 1 : i32
      %14 = ew.map xori(%along, %13) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i32
      %15 = ew.map divsi(%14, %5) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i32
      %16 = ew.map muli(%15, %4) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i32
      %17 = ew.map remsi(%14, %5) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i32
      %18 = ew.map subi(%num_m, %16) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i32
      %19 = ew.map minsi(%18, %4) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i32
      %20 = ew.map remsi(%17, %19) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i32
      %21 = ew.map addi(%16, %20) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i32
      %22 = ew.map muli(%21, %2) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i32
      %23 = ew.map cmpi_eq(%off_m, %22) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i1
      %24 = ew.map divsi(%17, %19) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i32
      %25 = ew.map muli(%24, %2) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i32
      %26 = ew.map cmpi_eq(%off_n, %25) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i1
      %27 = ew.map ori(%23, %26) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i1, i1) -> i1
      %previous = arith.constant {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} -1 : i32
      %acc = hopper.undefined {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} : !hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">
      %acc_1, %28, %a_b_get_slot_1, %a_b_get_phase = scf.for %k = %first to %last step %12 iter_args(%acc_2 = %acc, %previous_1 = %previous, %a_b_get_slot_2 = %a_b_get_slot, %a_b_get_phase_1 = %a_b_get_slot) -> (!hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">, i32, i32, i32) : i32 {
        %accumulate = ew.map cmpi_ne(%k, %first) {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} : (i32, i32) -> i1
        hopper.mbarrier_wait %a_b_full[%a_b_get_slot_2] parity %a_b_get_phase_1 {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : !hopper.mbarrier<3>
        %a = hopper.slot %a_b[%a_b_get_slot_2] {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : !hopper.ring<3, !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>> -> !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>
        %b = hopper.slot %a_b_1[%a_b_get_slot_2] {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : !hopper.ring<3, !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>> -> !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>
        %29 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} 1 : i32
        %30 = ew.map addi(%a_b_get_slot_2, %29) {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} : (i32, i32) -> i32
        %31 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} 3 : i32
        %32 = ew.map cmpi_eq(%30, %31) {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} : (i32, i32) -> i1
        %33 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} 0 : i32
        %a_b_get_slot_3 = ew.map select(%32, %33, %30) {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} : (i1, i32, i32) -> i32
        %34 = ew.map extui(%32) {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} : (i1) -> i32
        %a_b_get_phase_2 = ew.map xori(%a_b_get_phase_1, %34) {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} : (i32, i32) -> i32
        %group_1 = hopper.group_index {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>}
        %35 = hopper.matrix_desc %b lbo 16 sbo 1024 {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>
        %36 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} 64 : i32
        %37 = ew.map muli(%group_1, %36) {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : (i32, i32) -> i32
        %38 = hopper.subtile %a[%37, 0] {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : !hopper.tile<128x64xf16, swizzle 128, panel_rows 128> -> !hopper.tile<64x64xf16, swizzle 128, panel_rows 128>
        %39 = hopper.matrix_desc %38 lbo 16 sbo 1024 {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : !hopper.tile<64x64xf16, swizzle 128, panel_rows 128>
        hopper.wgmma_fence {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>}
        %40 = hopper.wgmma %acc_2 from 0 += %39 + 0 * %35 + 0 n 128 if %accumulate : i1 types f16, f16 {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : !hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">, !hopper.matrix_desc, !hopper.matrix_desc -> !hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">
        %41 = hopper.wgmma %40 from 0 += %39 + 2 * %35 + 2 n 128 types f16, f16 {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : !hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">, !hopper.matrix_desc, !hopper.matrix_desc -> !hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">
        %42 = hopper.wgmma %41 from 0 += %39 + 4 * %35 + 4 n 128 types f16, f16 {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : !hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">, !hopper.matrix_desc, !hopper.matrix_desc -> !hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">
        %acc_3 = hopper.wgmma %42 from 0 += %39 + 6 * %35 + 6 n 128 types f16, f16 {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : !hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">, !hopper.matrix_desc, !hopper.matrix_desc -> !hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">
        hopper.wgmma_commit {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>}
        hopper.wgmma_wait 1 {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>}
        %43 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} 0 : i32
        %44 = ew.map cmpi_sge(%previous_1, %43) {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : (i32, i32) -> i1
        scf.if %44 {
          "hopper.one_thread"() <{scope = "group"}> ({
            hopper.mbarrier_arrive %a_b_empty[%previous_1] {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : !hopper.mbarrier<3>
            %rank = hopper.cluster_rank {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>}
            %45 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} 1 : i32
            %46 = ew.map xori(%rank, %45) {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : (i32, i32) -> i32
            %47 = ew.map select(%27, %46, %rank) {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : (i1, i32, i32) -> i32
            hopper.mbarrier_arrive %a_b_empty[%previous_1] cta %47 : i32 {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : !hopper.mbarrier<3>
          }) {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : () -> ()
        }{loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>}
        scf.yield {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} %acc_3, %a_b_get_slot_2, %a_b_get_slot_3, %a_b_get_phase_2 : !hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">, i32, i32, i32
      } {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>}
      %48 = hopper.wgmma_wait 0, %acc_1 : !hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64"> -> !hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64"> {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>}
      %ran = ew.map cmpi_slt(%first, %last) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i1
      %acc_4 = hopper.zero_unless %ran, %48 {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : !hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64"> -> !hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">
      %49 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} 0 : i32
      %50 = ew.map cmpi_sge(%28, %49) {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : (i32, i32) -> i1
      scf.if %50 {
        "hopper.one_thread"() <{scope = "group"}> ({
          hopper.mbarrier_arrive %a_b_empty[%28] {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : !hopper.mbarrier<3>
          %rank_1 = hopper.cluster_rank {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>}
          %51 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} 1 : i32
          %52 = ew.map xori(%rank_1, %51) {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : (i32, i32) -> i32
          %53 = ew.map select(%27, %52, %rank_1) {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : (i1, i32, i32) -> i32
          hopper.mbarrier_arrive %a_b_empty[%28] cta %53 : i32 {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : !hopper.mbarrier<3>
        }) {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : () -> ()
      }{loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>}
      %group_2 = hopper.group_index {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>}
      %54 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} 64 : i32
      %55 = ew.map muli(%group_2, %54) {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : (i32, i32) -> i32
      %56 = ew.map addi(%off_m, %55) {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : (i32, i32) -> i32
      %57 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} 1 : i32
      %58 = ew.map addi(%group_2, %57) {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : (i32, i32) -> i32
      "hopper.one_thread"() <{scope = "group"}> ({
        hopper.bulk_wait_read 1 {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>}
      }) {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : () -> ()
      hopper.named_barrier_sync %58 threads 128 {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>}
      %59 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} 0 : i32
      %60 = hopper.slot %staging[%59] {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : !hopper.ring<2, !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>> -> !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>
      %61 = hopper.subtile %60[%55, 0] {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : !hopper.tile<128x64xf16, swizzle 128, panel_rows 128> -> !hopper.tile<64x64xf16, swizzle 128, panel_rows 128>
      %62 = hopper.window %acc_4 from 0 {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : !hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64"> -> !hopper.frag<f32, "128x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">
      %63 = ew.map truncf(%62) {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : (!hopper.frag<f32, "128x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">) -> !hopper.frag<f16, "128x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">
      hopper.stmatrix %63 from 0, %61 {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : !hopper.frag<f16, "128x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">, !hopper.tile<64x64xf16, swizzle 128, panel_rows 128>
      hopper.fence_proxy_async {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>}
      hopper.named_barrier_sync %58 threads 128 {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>}
      "hopper.one_thread"() <{scope = "group"}> ({
        hopper.tma_store %c_map[%56, %off_n] from %61 {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : !hopper.tensormap, !hopper.tile<64x64xf16, swizzle 128, panel_rows 128>
        hopper.bulk_commit {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>}
      }) {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : () -> ()
      "hopper.one_thread"() <{scope = "group"}> ({
        hopper.bulk_wait_read 1 {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>}
      }) {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : () -> ()
      hopper.named_barrier_sync %58 threads 128 {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>}
      %64 = hopper.slot %staging[%57] {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : !hopper.ring<2, !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>> -> !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>
      %65 = hopper.subtile %64[%55, 0] {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : !hopper.tile<128x64xf16, swizzle 128, panel_rows 128> -> !hopper.tile<64x64xf16, swizzle 128, panel_rows 128>
      %66 = hopper.window %acc_4 from 32 {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : !hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64"> -> !hopper.frag<f32, "128x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">
      %67 = ew.map truncf(%66) {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : (!hopper.frag<f32, "128x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">) -> !hopper.frag<f16, "128x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">
      hopper.stmatrix %67 from 0, %65 {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : !hopper.frag<f16, "128x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">, !hopper.tile<64x64xf16, swizzle 128, panel_rows 128>
      hopper.fence_proxy_async {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>}
      hopper.named_barrier_sync %58 threads 128 {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>}
      "hopper.one_thread"() <{scope = "group"}> ({
        %68 = ew.map addi(%off_n, %54) {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : (i32, i32) -> i32
        hopper.tma_store %c_map[%56, %68] from %65 {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : !hopper.tensormap, !hopper.tile<64x64xf16, swizzle 128, panel_rows 128>
        hopper.bulk_commit {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>}
      }) {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : () -> ()
      "hopper.one_thread"() <{scope = "group"}> ({
        hopper.bulk_wait_read 0
      }) : () -> ()
    }) : () -> ()
    "hopper.role"() <{role = "load", first_warp = 8 : i64, warps = 4 : i64, teams = 1 : i64, single = "one thread", registers = 40 : i64}> ({
      %a_b_put_slot = arith.constant {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} 0 : i32
      %along_2 = hopper.block_id 0 {loc = #tawa.span<"gemm_kernels.py", 79, 20, 79, 36>}
      %69 = arith.constant {loc = #tawa.span<"standard.py", 42, 12, 42, 25>} 127 : i32
      %70 = ew.map addi(%M, %69) {loc = #tawa.span<"standard.py", 42, 12, 42, 25>} : (i32, i32) -> i32
      %71 = arith.constant {loc = #tawa.span<"standard.py", 42, 11, 42, 33>} 128 : i32
      %num_m_1 = ew.map divsi(%70, %71) {loc = #tawa.span<"standard.py", 42, 11, 42, 33>} : (i32, i32) -> i32
      %72 = ew.map addi(%N, %69) {loc = #tawa.span<"standard.py", 42, 12, 42, 25>} : (i32, i32) -> i32
      %num_n_1 = ew.map divsi(%72, %71) {loc = #tawa.span<"standard.py", 42, 11, 42, 33>} : (i32, i32) -> i32
      %73 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 83, 24, 83, 39>} 8 : i32
      %74 = ew.map muli(%73, %num_n_1) {loc = #tawa.span<"gemm_kernels.py", 83, 24, 83, 39>} : (i32, i32) -> i32
      %75 = ew.map divsi(%along_2, %74) {loc = #tawa.span<"gemm_kernels.py", 83, 16, 83, 40>} : (i32, i32) -> i32
      %begin_1 = ew.map muli(%75, %73) {loc = #tawa.span<"gemm_kernels.py", 83, 16, 83, 50>} : (i32, i32) -> i32
      %76 = ew.map subi(%num_m_1, %begin_1) {loc = #tawa.span<"gemm_kernels.py", 84, 28, 84, 42>} : (i32, i32) -> i32
      %group_3 = ew.map minsi(%76, %73) {loc = #tawa.span<"gemm_kernels.py", 84, 24, 84, 52>} : (i32, i32) -> i32
      %inside_1 = ew.map remsi(%along_2, %74) {loc = #tawa.span<"gemm_kernels.py", 84, 54, 84, 77>} : (i32, i32) -> i32
      %77 = ew.map remsi(%inside_1, %group_3) {loc = #tawa.span<"gemm_kernels.py", 85, 32, 85, 46>} : (i32, i32) -> i32
      %along_3 = ew.map addi(%begin_1, %77) {loc = #tawa.span<"gemm_kernels.py", 85, 24, 85, 46>} : (i32, i32) -> i32
      %across_1 = ew.map divsi(%inside_1, %group_3) {loc = #tawa.span<"gemm_kernels.py", 85, 48, 85, 63>} : (i32, i32) -> i32
      %off_m_1 = ew.map muli(%along_3, %71) {loc = #tawa.span<"gemm_kernels.py", 87, 19, 87, 35>} : (i32, i32) -> i32
      %off_n_1 = ew.map muli(%across_1, %71) {loc = #tawa.span<"gemm_kernels.py", 87, 37, 87, 53>} : (i32, i32) -> i32
      %78 = arith.constant {loc = #tawa.span<"standard.py", 42, 12, 42, 25>} 63 : i32
      %79 = ew.map addi(%K, %78) {loc = #tawa.span<"standard.py", 42, 12, 42, 25>} : (i32, i32) -> i32
      %80 = arith.constant {loc = #tawa.span<"standard.py", 42, 11, 42, 33>} 64 : i32
      %last_1 = ew.map divsi(%79, %80) {loc = #tawa.span<"standard.py", 42, 11, 42, 33>} : (i32, i32) -> i32
      %first_1 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 90, 4, 90, 40>} 0 : i32
      %81 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 96, 13, 96, 31>} 1 : i32
      %82 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} 1 : i32
      %83 = ew.map xori(%along_2, %82) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i32
      %84 = ew.map divsi(%83, %74) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i32
      %85 = ew.map muli(%84, %73) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i32
      %86 = ew.map remsi(%83, %74) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i32
      %87 = ew.map subi(%num_m_1, %85) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i32
      %88 = ew.map minsi(%87, %73) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i32
      %89 = ew.map remsi(%86, %88) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i32
      %90 = ew.map addi(%85, %89) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i32
      %91 = ew.map muli(%90, %71) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i32
      %92 = ew.map cmpi_eq(%off_m_1, %91) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i1
      %93 = ew.map divsi(%86, %88) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i32
      %94 = ew.map muli(%93, %71) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i32
      %95 = ew.map cmpi_eq(%off_n_1, %94) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i1
      %a_b_put_slot_1, %a_b_put_phase = scf.for %k_1 = %first_1 to %last_1 step %81 iter_args(%a_b_put_slot_2 = %a_b_put_slot, %a_b_put_phase_1 = %a_b_put_slot) -> (i32, i32) : i32 {
        %start = ew.map muli(%k_1, %80) {loc = #tawa.span<"gemm_kernels.py", 97, 16, 97, 27>} : (i32, i32) -> i32
        %96 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} 1 : i32
        %97 = ew.map addi(%a_b_put_slot_2, %96) {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} : (i32, i32) -> i32
        %98 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} 3 : i32
        %99 = ew.map cmpi_eq(%97, %98) {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} : (i32, i32) -> i1
        %100 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} 0 : i32
        %a_b_put_slot_3 = ew.map select(%99, %100, %97) {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} : (i1, i32, i32) -> i32
        %101 = ew.map extui(%99) {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} : (i1) -> i32
        %a_b_put_phase_2 = ew.map xori(%a_b_put_phase_1, %101) {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} : (i32, i32) -> i32
        %102 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} 1 : i32
        %103 = ew.map xori(%a_b_put_phase_1, %102) {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : (i32, i32) -> i32
        hopper.mbarrier_wait %a_b_empty[%a_b_put_slot_2] parity %103 {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : !hopper.mbarrier<3>
        hopper.mbarrier_expect %a_b_full[%a_b_put_slot_2] bytes 32768 {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : !hopper.mbarrier<3>
        %a_1 = hopper.slot %a_b[%a_b_put_slot_2] {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : !hopper.ring<3, !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>> -> !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>
        %b_1 = hopper.slot %a_b_1[%a_b_put_slot_2] {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : !hopper.ring<3, !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>> -> !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>
        scf.if %92 {
          %rank_2 = hopper.cluster_rank {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>}
          %104 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} 64 : i32
          %105 = ew.map muli(%rank_2, %104) {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : (i32, i32) -> i32
          %106 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} 3 : i32
          %107 = hopper.subtile %a_1[%105, 0] {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : !hopper.tile<128x64xf16, swizzle 128, panel_rows 128> -> !hopper.tile<64x64xf16, swizzle 128, panel_rows 128>
          %108 = ew.map addi(%off_m_1, %105) {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : (i32, i32) -> i32
          hopper.tma_load %a_desc_map[%108, %start] into %107 signal %a_b_full[%a_b_put_slot_2] ctas %106 : i32 {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : !hopper.tensormap, !hopper.tile<64x64xf16, swizzle 128, panel_rows 128>, !hopper.mbarrier<3>
        } else {
          %109 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} 0 : i32
          %110 = hopper.subtile %a_1[%109, 0] {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : !hopper.tile<128x64xf16, swizzle 128, panel_rows 128> -> !hopper.tile<64x64xf16, swizzle 128, panel_rows 128>
          hopper.tma_load %a_desc_map[%off_m_1, %start] into %110 signal %a_b_full[%a_b_put_slot_2] {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : !hopper.tensormap, !hopper.tile<64x64xf16, swizzle 128, panel_rows 128>, !hopper.mbarrier<3>
          %111 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} 64 : i32
          %112 = hopper.subtile %a_1[%111, 0] {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : !hopper.tile<128x64xf16, swizzle 128, panel_rows 128> -> !hopper.tile<64x64xf16, swizzle 128, panel_rows 128>
          %113 = ew.map addi(%off_m_1, %111) {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : (i32, i32) -> i32
          hopper.tma_load %a_desc_map[%113, %start] into %112 signal %a_b_full[%a_b_put_slot_2] {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : !hopper.tensormap, !hopper.tile<64x64xf16, swizzle 128, panel_rows 128>, !hopper.mbarrier<3>
        }{loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>}
        scf.if %95 {
          %rank_3 = hopper.cluster_rank {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>}
          %114 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} 64 : i32
          %115 = ew.map muli(%rank_3, %114) {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : (i32, i32) -> i32
          %116 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} 3 : i32
          %117 = hopper.subtile %b_1[%115, 0] {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : !hopper.tile<128x64xf16, swizzle 128, panel_rows 128> -> !hopper.tile<64x64xf16, swizzle 128, panel_rows 128>
          %118 = ew.map addi(%off_n_1, %115) {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : (i32, i32) -> i32
          hopper.tma_load %b_desc_map[%118, %start] into %117 signal %a_b_full[%a_b_put_slot_2] ctas %116 : i32 {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : !hopper.tensormap, !hopper.tile<64x64xf16, swizzle 128, panel_rows 128>, !hopper.mbarrier<3>
        } else {
          %119 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} 0 : i32
          %120 = hopper.subtile %b_1[%119, 0] {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : !hopper.tile<128x64xf16, swizzle 128, panel_rows 128> -> !hopper.tile<64x64xf16, swizzle 128, panel_rows 128>
          hopper.tma_load %b_desc_map[%off_n_1, %start] into %120 signal %a_b_full[%a_b_put_slot_2] {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : !hopper.tensormap, !hopper.tile<64x64xf16, swizzle 128, panel_rows 128>, !hopper.mbarrier<3>
          %121 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} 64 : i32
          %122 = hopper.subtile %b_1[%121, 0] {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : !hopper.tile<128x64xf16, swizzle 128, panel_rows 128> -> !hopper.tile<64x64xf16, swizzle 128, panel_rows 128>
          %123 = ew.map addi(%off_n_1, %121) {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : (i32, i32) -> i32
          hopper.tma_load %b_desc_map[%123, %start] into %122 signal %a_b_full[%a_b_put_slot_2] {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : !hopper.tensormap, !hopper.tile<64x64xf16, swizzle 128, panel_rows 128>, !hopper.mbarrier<3>
        }{loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>}
        scf.yield {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} %a_b_put_slot_3, %a_b_put_phase_2 : i32, i32
      } {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>}
    }) : () -> ()
    hopper.cluster_sync
    func.return
  }
}