builtin.module {
  func.func @gemm(%grid_x: i32, %grid_y: i32, %grid_z: i32, %reciprocal_x: i64, %M: i32, %N: i32, %K: i32, %c_map: !hopper.tensormap, %a_desc_map: !hopper.tensormap, %b_desc_map: !hopper.tensormap) attributes {hopper.threads = 384 : i64, hopper.shared_bytes = 131120 : i64, hopper.cluster = 1 : i64, hopper.ctas_per_sm = 1 : i64, tawa.spec = "{\22entry\22: \22gemm\22, \22threads\22: 384, \22shared_bytes\22: 131120, \22parameters\22: [{\22kind\22: \22GridParam\22, \22axis\22: 0}, {\22kind\22: \22GridParam\22, \22axis\22: 1}, {\22kind\22: \22GridParam\22, \22axis\22: 2}, {\22kind\22: \22ReciprocalParam\22, \22axis\22: 0}, {\22kind\22: \22ScalarParam\22, \22value\22: [\22arg\22, 3], \22type\22: \22i32\22}, {\22kind\22: \22ScalarParam\22, \22value\22: [\22arg\22, 4], \22type\22: \22i32\22}, {\22kind\22: \22ScalarParam\22, \22value\22: [\22arg\22, 5], \22type\22: \22i32\22}, {\22kind\22: \22TensorMapParam\22, \22arg\22: 2, \22element_type\22: \22f16\22, \22box\22: [64, 64], \22block_shape\22: [128, 128], \22swizzle\22: 128, \22stored\22: true}, {\22kind\22: \22TensorMapParam\22, \22arg\22: 0, \22element_type\22: \22f16\22, \22box\22: [128, 64], \22block_shape\22: [128, 64], \22swizzle\22: 128}, {\22kind\22: \22TensorMapParam\22, \22arg\22: 1, \22element_type\22: \22f16\22, \22box\22: [128, 64], \22block_shape\22: [128, 64], \22swizzle\22: 128}], \22arguments\22: [\22a_desc\22, \22b_desc\22, \22c\22, \22M\22, \22N\22, \22K\22], \22cluster\22: [1, 1, 1], \22grid\22: \22persistent\22, \22ctas_per_sm\22: 1, \22apart\22: [[\22a_desc\22, \22c\22], [\22b_desc\22, \22c\22]]}"} {
    %a_b = hopper.smem at 0 : !hopper.ring<3, !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>>
    %a_b_1 = hopper.smem at 49152 : !hopper.ring<3, !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>>
    %a_b_full = hopper.mbarrier at 131072 arrivals 1 : !hopper.mbarrier<3>
    %a_b_empty = hopper.mbarrier at 131096 arrivals 2 : !hopper.mbarrier<3>
    %staging = hopper.smem at 98304 : !hopper.ring<2, !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>>
    "hopper.one_thread"() <{scope = "cta"}> ({
      hopper.mbarrier_init %a_b_full arrivals 1 : !hopper.mbarrier<3>
      hopper.mbarrier_init %a_b_empty arrivals 2 : !hopper.mbarrier<3>
      hopper.fence_barrier_init
      hopper.prefetch_tensormap %c_map : !hopper.tensormap
      hopper.prefetch_tensormap %a_desc_map : !hopper.tensormap
      hopper.prefetch_tensormap %b_desc_map : !hopper.tensormap
    }) : () -> ()
    hopper.cta_sync
    "hopper.role"() <{role = "math", first_warp = 0 : i64, warps = 8 : i64, teams = 1 : i64, registers = 232 : i64}> ({
      %a_b_get_slot = arith.constant {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} 0 : i32
      %0 = hopper.block_id 0 {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>}
      %1 = hopper.num_blocks 0 {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>}
      %2 = ew.map muli(%grid_x, %grid_y) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i32
      %3 = ew.map muli(%2, %grid_z) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i32
      %a_b_get_slot_1, %a_b_get_phase = scf.for %program = %0 to %3 step %1 iter_args(%a_b_get_slot_2 = %a_b_get_slot, %a_b_get_phase_1 = %a_b_get_slot) -> (i32, i32) : i32 {
        %4 = ew.map quotient(%program, %reciprocal_x) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i64) -> i32
        %5 = ew.map muli(%4, %grid_x) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i32
        %along = ew.map subi(%program, %5) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i32
        %6 = arith.constant {loc = #tawa.span<"standard.py", 42, 12, 42, 25>} 127 : i32
        %7 = ew.map addi(%M, %6) {loc = #tawa.span<"standard.py", 42, 12, 42, 25>} : (i32, i32) -> i32
        %8 = arith.constant {loc = #tawa.span<"standard.py", 42, 11, 42, 33>} 128 : i32
        %num_m = ew.map divsi(%7, %8) {loc = #tawa.span<"standard.py", 42, 11, 42, 33>} : (i32, i32) -> i32
        %9 = ew.map addi(%N, %6) {loc = #tawa.span<"standard.py", 42, 12, 42, 25>} : (i32, i32) -> i32
        %num_n = ew.map divsi(%9, %8) {loc = #tawa.span<"standard.py", 42, 11, 42, 33>} : (i32, i32) -> i32
        %10 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 83, 24, 83, 39>} 8 : i32
        %11 = ew.map muli(%10, %num_n) {loc = #tawa.span<"gemm_kernels.py", 83, 24, 83, 39>} : (i32, i32) -> i32
        %12 = ew.map divsi(%along, %11) {loc = #tawa.span<"gemm_kernels.py", 83, 16, 83, 40>} : (i32, i32) -> i32
        %begin = ew.map muli(%12, %10) {loc = #tawa.span<"gemm_kernels.py", 83, 16, 83, 50>} : (i32, i32) -> i32
        %13 = ew.map subi(%num_m, %begin) {loc = #tawa.span<"gemm_kernels.py", 84, 28, 84, 42>} : (i32, i32) -> i32
        %group = ew.map minsi(%13, %10) {loc = #tawa.span<"gemm_kernels.py", 84, 24, 84, 52>} : (i32, i32) -> i32
        %inside = ew.map remsi(%along, %11) {loc = #tawa.span<"gemm_kernels.py", 84, 54, 84, 77>} : (i32, i32) -> i32
        %14 = ew.map remsi(%inside, %group) {loc = #tawa.span<"gemm_kernels.py", 85, 32, 85, 46>} : (i32, i32) -> i32
        %along_1 = ew.map addi(%begin, %14) {loc = #tawa.span<"gemm_kernels.py", 85, 24, 85, 46>} : (i32, i32) -> i32
        %across = ew.map divsi(%inside, %group) {loc = #tawa.span<"gemm_kernels.py", 85, 48, 85, 63>} : (i32, i32) -> i32
        %off_m = ew.map muli(%along_1, %8) {loc = #tawa.span<"gemm_kernels.py", 87, 19, 87, 35>} : (i32, i32) -> i32
        %off_n = ew.map muli(%across, %8) {loc = #tawa.span<"gemm_kernels.py", 87, 37, 87, 53>} : (i32, i32) -> i32
        %15 = arith.constant {loc = #tawa.span<"standard.py", 42, 12, 42, 25>} 63 : i32
        %16 = ew.map addi(%K, %15) {loc = #tawa.span<"standard.py", 42, 12, 42, 25>} : (i32, i32) -> i32
        %17 = arith.constant {loc = #tawa.span<"standard.py", 42, 11, 42, 33>} 64 : i32
        %last = ew.map divsi(%16, %17) {loc = #tawa.span<"standard.py", 42, 11, 42, 33>} : (i32, i32) -> i32
        %first = arith.constant {loc = #tawa.span<"gemm_kernels.py", 90, 4, 90, 40>} 0 : i32
        %18 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 96, 13, 96, 31>} 1 : i32
        %previous = arith.constant {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} -1 : i32
        %acc = hopper.undefined {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} : !hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">
        %acc_1, %19, %a_b_get_slot_3, %a_b_get_phase_2 = scf.for %k = %first to %last step %18 iter_args(%acc_2 = %acc, %previous_1 = %previous, %a_b_get_slot_4 = %a_b_get_slot_2, %a_b_get_phase_3 = %a_b_get_phase_1) -> (!hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">, i32, i32, i32) : i32 {
          %accumulate = ew.map cmpi_ne(%k, %first) {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} : (i32, i32) -> i1
          hopper.mbarrier_wait %a_b_full[%a_b_get_slot_4] parity %a_b_get_phase_3 {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : !hopper.mbarrier<3>
          %a = hopper.slot %a_b[%a_b_get_slot_4] {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : !hopper.ring<3, !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>> -> !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>
          %b = hopper.slot %a_b_1[%a_b_get_slot_4] {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : !hopper.ring<3, !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>> -> !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>
          %20 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} 1 : i32
          %21 = ew.map addi(%a_b_get_slot_4, %20) {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} : (i32, i32) -> i32
          %22 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} 3 : i32
          %23 = ew.map cmpi_eq(%21, %22) {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} : (i32, i32) -> i1
          %24 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} 0 : i32
          %a_b_get_slot_5 = ew.map select(%23, %24, %21) {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} : (i1, i32, i32) -> i32
          %25 = ew.map extui(%23) {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} : (i1) -> i32
          %a_b_get_phase_4 = ew.map xori(%a_b_get_phase_3, %25) {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} : (i32, i32) -> i32
          %group_1 = hopper.group_index {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>}
          %26 = hopper.matrix_desc %b lbo 16 sbo 1024 {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>
          %27 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} 64 : i32
          %28 = ew.map muli(%group_1, %27) {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : (i32, i32) -> i32
          %29 = hopper.subtile %a[%28, 0] {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : !hopper.tile<128x64xf16, swizzle 128, panel_rows 128> -> !hopper.tile<64x64xf16, swizzle 128, panel_rows 128>
          %30 = hopper.matrix_desc %29 lbo 16 sbo 1024 {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : !hopper.tile<64x64xf16, swizzle 128, panel_rows 128>
          hopper.wgmma_fence {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>}
          %31 = hopper.wgmma %acc_2 from 0 += %30 + 0 * %26 + 0 n 128 if %accumulate : i1 types f16, f16 {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : !hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">, !hopper.matrix_desc, !hopper.matrix_desc -> !hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">
          %32 = hopper.wgmma %31 from 0 += %30 + 2 * %26 + 2 n 128 types f16, f16 {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : !hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">, !hopper.matrix_desc, !hopper.matrix_desc -> !hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">
          %33 = hopper.wgmma %32 from 0 += %30 + 4 * %26 + 4 n 128 types f16, f16 {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : !hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">, !hopper.matrix_desc, !hopper.matrix_desc -> !hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">
          %acc_3 = hopper.wgmma %33 from 0 += %30 + 6 * %26 + 6 n 128 types f16, f16 {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : !hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">, !hopper.matrix_desc, !hopper.matrix_desc -> !hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">
          hopper.wgmma_commit {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>}
          hopper.wgmma_wait 1 {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>}
          %34 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} 0 : i32
          %35 = ew.map cmpi_sge(%previous_1, %34) {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : (i32, i32) -> i1
          scf.if %35 {
            "hopper.one_thread"() <{scope = "group"}> ({
              hopper.mbarrier_arrive %a_b_empty[%previous_1] {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : !hopper.mbarrier<3>
            }) {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : () -> ()
          }{loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>}
          scf.yield {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} %acc_3, %a_b_get_slot_4, %a_b_get_slot_5, %a_b_get_phase_4 : !hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">, i32, i32, i32
        } {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>}
        %36 = hopper.wgmma_wait 0, %acc_1 : !hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64"> -> !hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64"> {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>}
        %ran = ew.map cmpi_slt(%first, %last) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i1
        %acc_4 = hopper.zero_unless %ran, %36 {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : !hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64"> -> !hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">
        %37 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} 0 : i32
        %38 = ew.map cmpi_sge(%19, %37) {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : (i32, i32) -> i1
        scf.if %38 {
          "hopper.one_thread"() <{scope = "group"}> ({
            hopper.mbarrier_arrive %a_b_empty[%19] {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : !hopper.mbarrier<3>
          }) {loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>} : () -> ()
        }{loc = #tawa.span<"gemm_kernels.py", 102, 14, 102, 79>}
        %group_2 = hopper.group_index {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>}
        %39 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} 64 : i32
        %40 = ew.map muli(%group_2, %39) {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : (i32, i32) -> i32
        %41 = ew.map addi(%off_m, %40) {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : (i32, i32) -> i32
        %42 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} 1 : i32
        %43 = ew.map addi(%group_2, %42) {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : (i32, i32) -> i32
        "hopper.one_thread"() <{scope = "group"}> ({
          hopper.bulk_wait_read 1 {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>}
        }) {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : () -> ()
        hopper.named_barrier_sync %43 threads 128 {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>}
        %44 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} 0 : i32
        %45 = hopper.slot %staging[%44] {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : !hopper.ring<2, !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>> -> !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>
        %46 = hopper.subtile %45[%40, 0] {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : !hopper.tile<128x64xf16, swizzle 128, panel_rows 128> -> !hopper.tile<64x64xf16, swizzle 128, panel_rows 128>
        %47 = hopper.window %acc_4 from 0 {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : !hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64"> -> !hopper.frag<f32, "128x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">
        %48 = ew.map truncf(%47) {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : (!hopper.frag<f32, "128x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">) -> !hopper.frag<f16, "128x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">
        hopper.stmatrix %48 from 0, %46 {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : !hopper.frag<f16, "128x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">, !hopper.tile<64x64xf16, swizzle 128, panel_rows 128>
        hopper.fence_proxy_async {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>}
        hopper.named_barrier_sync %43 threads 128 {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>}
        "hopper.one_thread"() <{scope = "group"}> ({
          hopper.tma_store %c_map[%41, %off_n] from %46 {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : !hopper.tensormap, !hopper.tile<64x64xf16, swizzle 128, panel_rows 128>
          hopper.bulk_commit {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>}
        }) {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : () -> ()
        "hopper.one_thread"() <{scope = "group"}> ({
          hopper.bulk_wait_read 1 {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>}
        }) {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : () -> ()
        hopper.named_barrier_sync %43 threads 128 {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>}
        %49 = hopper.slot %staging[%42] {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : !hopper.ring<2, !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>> -> !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>
        %50 = hopper.subtile %49[%40, 0] {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : !hopper.tile<128x64xf16, swizzle 128, panel_rows 128> -> !hopper.tile<64x64xf16, swizzle 128, panel_rows 128>
        %51 = hopper.window %acc_4 from 32 {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : !hopper.frag<f32, "128x128: 2@1*1 2@0*8 16@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64"> -> !hopper.frag<f32, "128x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">
        %52 = ew.map truncf(%51) {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : (!hopper.frag<f32, "128x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">) -> !hopper.frag<f16, "128x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">
        hopper.stmatrix %52 from 0, %50 {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : !hopper.frag<f16, "128x64: 2@1*1 2@0*8 8@1*8 | 4@1*2 8@0*1 | 4@0*16 2@0*64">, !hopper.tile<64x64xf16, swizzle 128, panel_rows 128>
        hopper.fence_proxy_async {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>}
        hopper.named_barrier_sync %43 threads 128 {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>}
        "hopper.one_thread"() <{scope = "group"}> ({
          %53 = ew.map addi(%off_n, %39) {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : (i32, i32) -> i32
          hopper.tma_store %c_map[%41, %53] from %50 {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : !hopper.tensormap, !hopper.tile<64x64xf16, swizzle 128, panel_rows 128>
          hopper.bulk_commit {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>}
        }) {loc = #tawa.span<"gemm_kernels.py", 111, 8, 111, 48>} : () -> ()
        scf.yield {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} %a_b_get_slot_3, %a_b_get_phase_2 : i32, i32
      } {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>}
      "hopper.one_thread"() <{scope = "group"}> ({
        hopper.bulk_wait_read 0
      }) : () -> ()
    }) : () -> ()
    "hopper.role"() <{role = "load", first_warp = 8 : i64, warps = 4 : i64, teams = 1 : i64, single = "one thread", registers = 40 : i64}> ({
      %a_b_put_slot = arith.constant {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} 0 : i32
      %54 = hopper.block_id 0 {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>}
      %55 = hopper.num_blocks 0 {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>}
      %56 = ew.map muli(%grid_x, %grid_y) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i32
      %57 = ew.map muli(%56, %grid_z) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i32
      %a_b_put_slot_1, %a_b_put_phase = scf.for %program_1 = %54 to %57 step %55 iter_args(%a_b_put_slot_2 = %a_b_put_slot, %a_b_put_phase_1 = %a_b_put_slot) -> (i32, i32) : i32 {
        %58 = ew.map quotient(%program_1, %reciprocal_x) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i64) -> i32
        %59 = ew.map muli(%58, %grid_x) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i32
        %along_2 = ew.map subi(%program_1, %59) {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} : (i32, i32) -> i32
        %60 = arith.constant {loc = #tawa.span<"standard.py", 42, 12, 42, 25>} 127 : i32
        %61 = ew.map addi(%M, %60) {loc = #tawa.span<"standard.py", 42, 12, 42, 25>} : (i32, i32) -> i32
        %62 = arith.constant {loc = #tawa.span<"standard.py", 42, 11, 42, 33>} 128 : i32
        %num_m_1 = ew.map divsi(%61, %62) {loc = #tawa.span<"standard.py", 42, 11, 42, 33>} : (i32, i32) -> i32
        %63 = ew.map addi(%N, %60) {loc = #tawa.span<"standard.py", 42, 12, 42, 25>} : (i32, i32) -> i32
        %num_n_1 = ew.map divsi(%63, %62) {loc = #tawa.span<"standard.py", 42, 11, 42, 33>} : (i32, i32) -> i32
        %64 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 83, 24, 83, 39>} 8 : i32
        %65 = ew.map muli(%64, %num_n_1) {loc = #tawa.span<"gemm_kernels.py", 83, 24, 83, 39>} : (i32, i32) -> i32
        %66 = ew.map divsi(%along_2, %65) {loc = #tawa.span<"gemm_kernels.py", 83, 16, 83, 40>} : (i32, i32) -> i32
        %begin_1 = ew.map muli(%66, %64) {loc = #tawa.span<"gemm_kernels.py", 83, 16, 83, 50>} : (i32, i32) -> i32
        %67 = ew.map subi(%num_m_1, %begin_1) {loc = #tawa.span<"gemm_kernels.py", 84, 28, 84, 42>} : (i32, i32) -> i32
        %group_3 = ew.map minsi(%67, %64) {loc = #tawa.span<"gemm_kernels.py", 84, 24, 84, 52>} : (i32, i32) -> i32
        %inside_1 = ew.map remsi(%along_2, %65) {loc = #tawa.span<"gemm_kernels.py", 84, 54, 84, 77>} : (i32, i32) -> i32
        %68 = ew.map remsi(%inside_1, %group_3) {loc = #tawa.span<"gemm_kernels.py", 85, 32, 85, 46>} : (i32, i32) -> i32
        %along_3 = ew.map addi(%begin_1, %68) {loc = #tawa.span<"gemm_kernels.py", 85, 24, 85, 46>} : (i32, i32) -> i32
        %across_1 = ew.map divsi(%inside_1, %group_3) {loc = #tawa.span<"gemm_kernels.py", 85, 48, 85, 63>} : (i32, i32) -> i32
        %off_m_1 = ew.map muli(%along_3, %62) {loc = #tawa.span<"gemm_kernels.py", 87, 19, 87, 35>} : (i32, i32) -> i32
        %off_n_1 = ew.map muli(%across_1, %62) {loc = #tawa.span<"gemm_kernels.py", 87, 37, 87, 53>} : (i32, i32) -> i32
        %69 = arith.constant {loc = #tawa.span<"standard.py", 42, 12, 42, 25>} 63 : i32
        %70 = ew.map addi(%K, %69) {loc = #tawa.span<"standard.py", 42, 12, 42, 25>} : (i32, i32) -> i32
        %71 = arith.constant {loc = #tawa.span<"standard.py", 42, 11, 42, 33>} 64 : i32
        %last_1 = ew.map divsi(%70, %71) {loc = #tawa.span<"standard.py", 42, 11, 42, 33>} : (i32, i32) -> i32
        %first_1 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 90, 4, 90, 40>} 0 : i32
        %72 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 96, 13, 96, 31>} 1 : i32
        %a_b_put_slot_3, %a_b_put_phase_2 = scf.for %k_1 = %first_1 to %last_1 step %72 iter_args(%a_b_put_slot_4 = %a_b_put_slot_2, %a_b_put_phase_3 = %a_b_put_phase_1) -> (i32, i32) : i32 {
          %start = ew.map muli(%k_1, %71) {loc = #tawa.span<"gemm_kernels.py", 97, 16, 97, 27>} : (i32, i32) -> i32
          %73 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} 1 : i32
          %74 = ew.map addi(%a_b_put_slot_4, %73) {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} : (i32, i32) -> i32
          %75 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} 3 : i32
          %76 = ew.map cmpi_eq(%74, %75) {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} : (i32, i32) -> i1
          %77 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} 0 : i32
          %a_b_put_slot_5 = ew.map select(%76, %77, %74) {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} : (i1, i32, i32) -> i32
          %78 = ew.map extui(%76) {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} : (i1) -> i32
          %a_b_put_phase_4 = ew.map xori(%a_b_put_phase_3, %78) {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} : (i32, i32) -> i32
          %79 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} 1 : i32
          %80 = ew.map xori(%a_b_put_phase_3, %79) {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : (i32, i32) -> i32
          hopper.mbarrier_wait %a_b_empty[%a_b_put_slot_4] parity %80 {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : !hopper.mbarrier<3>
          hopper.mbarrier_expect %a_b_full[%a_b_put_slot_4] bytes 32768 {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : !hopper.mbarrier<3>
          %a_1 = hopper.slot %a_b[%a_b_put_slot_4] {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : !hopper.ring<3, !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>> -> !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>
          %b_1 = hopper.slot %a_b_1[%a_b_put_slot_4] {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : !hopper.ring<3, !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>> -> !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>
          %81 = arith.constant {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} 0 : i32
          %82 = hopper.subtile %a_1[%81, 0] {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : !hopper.tile<128x64xf16, swizzle 128, panel_rows 128> -> !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>
          hopper.tma_load %a_desc_map[%off_m_1, %start] into %82 signal %a_b_full[%a_b_put_slot_4] {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : !hopper.tensormap, !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>, !hopper.mbarrier<3>
          %83 = hopper.subtile %b_1[%81, 0] {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : !hopper.tile<128x64xf16, swizzle 128, panel_rows 128> -> !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>
          hopper.tma_load %b_desc_map[%off_n_1, %start] into %83 signal %a_b_full[%a_b_put_slot_4] {loc = #tawa.span<"gemm_kernels.py", 21, 11, 21, 59>} : !hopper.tensormap, !hopper.tile<128x64xf16, swizzle 128, panel_rows 128>, !hopper.mbarrier<3>
          scf.yield {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>} %a_b_put_slot_5, %a_b_put_phase_4 : i32, i32
        } {loc = #tawa.span<"gemm_kernels.py", 96, 4, 102, 79>}
        scf.yield {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>} %a_b_put_slot_3, %a_b_put_phase_2 : i32, i32
      } {loc = #tawa.span<"gemm_kernels.py", 57, 0, 111, 48>}
    }) : () -> ()
    func.return
  }
}