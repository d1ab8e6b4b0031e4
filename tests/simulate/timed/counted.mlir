builtin.module {
  func.func @counted(%n: i32, %x: !tawa.ptr<i32>, %table: !tawa.ptr<i32>, %counts: !tawa.ptr<i32>) attributes {hopper.threads = 128 : i64, hopper.shared_bytes = 1040 : i64, hopper.cluster = 1 : i64, hopper.ctas_per_sm = 1 : i64, tawa.spec = "{\22entry\22: \22counted\22, \22threads\22: 128, \22shared_bytes\22: 1040, \22parameters\22: [{\22kind\22: \22ScalarParam\22, \22value\22: [\22arg\22, 3], \22type\22: \22i32\22}, {\22kind\22: \22PointerParam\22, \22arg\22: 0, \22source\22: \22array\22}, {\22kind\22: \22PointerParam\22, \22arg\22: 1, \22source\22: \22array\22}, {\22kind\22: \22PointerParam\22, \22arg\22: 2, \22source\22: \22array\22}], \22arguments\22: [\22x\22, \22table\22, \22counts\22, \22n\22], \22cluster\22: [1, 1, 1], \22grid\22: \22plain\22, \22ctas_per_sm\22: 1, \22apart\22: [[\22x\22, \22counts\22], [\22table\22, \22counts\22]]}"} {
    "hopper.role"() <{role = "main", first_warp = 0 : i64, warps = 4 : i64, teams = 1 : i64, whole}> ({
      %0 = arith.constant {loc = #tawa.span<"timed_kernels.py", 35, 12, 35, 40>} 0 : i32
      %1 = hopper.block_id 0 {loc = #tawa.span<"timed_kernels.py", 36, 23, 36, 39>}
      %2 = arith.constant {loc = #tawa.span<"timed_kernels.py", 36, 23, 36, 47>} 256 : i32
      %3 = ew.map muli(%1, %2) {loc = #tawa.span<"timed_kernels.py", 36, 23, 36, 47>} : (i32, i32) -> i32
      %4 = hopper.num_blocks 0 {loc = #tawa.span<"timed_kernels.py", 36, 52, 36, 70>}
      %5 = ew.map muli(%4, %2) {loc = #tawa.span<"timed_kernels.py", 36, 52, 36, 78>} : (i32, i32) -> i32
      %6 = arith.constant {loc = #tawa.span<"timed_kernels.py", 40, 11, 40, 20>} 3 : i32
      %total = hopper.fill %0 {loc = #tawa.span<"timed_kernels.py", 36, 4, 41, 55>} : i32 -> !hopper.frag<i32, "256: 2@0*128 | 32@0*1 | 4@0*32">
      %total_1 = scf.for %start = %3 to %n step %5 iter_args(%total_2 = %total) -> (!hopper.frag<i32, "256: 2@0*128 | 32@0*1 | 4@0*32">) : i32 {
        %7 = ew.map remsi(%start, %6) {loc = #tawa.span<"timed_kernels.py", 40, 11, 40, 20>} : (i32, i32) -> i32
        %8 = ew.map cmpi_eq(%7, %0) {loc = #tawa.span<"timed_kernels.py", 40, 11, 40, 25>} : (i32, i32) -> i1
        %9 = hopper.fill %x {loc = #tawa.span<"timed_kernels.py", 38, 14, 38, 51>} : !tawa.ptr<i32> -> !hopper.frag<!tawa.ptr<i32>, "256: 2@0*128 | 32@0*1 | 4@0*32">
        %10 = hopper.fill %start {loc = #tawa.span<"timed_kernels.py", 38, 14, 38, 51>} : i32 -> !hopper.frag<i32, "256: 2@0*128 | 32@0*1 | 4@0*32">
        %11 = hopper.coordinate 0 from 0 {loc = #tawa.span<"timed_kernels.py", 38, 14, 38, 51>} : !hopper.frag<i32, "256: 2@0*128 | 32@0*1 | 4@0*32">
        %at = ew.map addi(%10, %11) {loc = #tawa.span<"timed_kernels.py", 38, 14, 38, 51>} : (!hopper.frag<i32, "256: 2@0*128 | 32@0*1 | 4@0*32">, !hopper.frag<i32, "256: 2@0*128 | 32@0*1 | 4@0*32">) -> !hopper.frag<i32, "256: 2@0*128 | 32@0*1 | 4@0*32">
        %12 = ew.map addptr(%9, %at) {loc = #tawa.span<"timed_kernels.py", 38, 14, 38, 51>} : (!hopper.frag<!tawa.ptr<i32>, "256: 2@0*128 | 32@0*1 | 4@0*32">, !hopper.frag<i32, "256: 2@0*128 | 32@0*1 | 4@0*32">) -> !hopper.frag<!tawa.ptr<i32>, "256: 2@0*128 | 32@0*1 | 4@0*32">
        %13 = "hopper.anchored"(%12) <{anchor = array<i64: 0, 0>, distance = array<i64: 0, 128>}> {loc = #tawa.span<"timed_kernels.py", 38, 14, 38, 51>} : (!hopper.frag<!tawa.ptr<i32>, "256: 2@0*128 | 32@0*1 | 4@0*32">) -> !hopper.frag<!tawa.ptr<i32>, "256: 2@0*128 | 32@0*1 | 4@0*32">
        %14 = hopper.fill %n {loc = #tawa.span<"timed_kernels.py", 38, 14, 38, 51>} : i32 -> !hopper.frag<i32, "256: 2@0*128 | 32@0*1 | 4@0*32">
        %15 = ew.map cmpi_slt(%at, %14) {loc = #tawa.span<"timed_kernels.py", 38, 14, 38, 51>} : (!hopper.frag<i32, "256: 2@0*128 | 32@0*1 | 4@0*32">, !hopper.frag<i32, "256: 2@0*128 | 32@0*1 | 4@0*32">) -> !hopper.frag<i1, "256: 2@0*128 | 32@0*1 | 4@0*32">
        %key = "hopper.global_load"(%13, %15, %total) <{vector = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1>}> {loc = #tawa.span<"timed_kernels.py", 38, 14, 38, 51>} : (!hopper.frag<!tawa.ptr<i32>, "256: 2@0*128 | 32@0*1 | 4@0*32">, !hopper.frag<i1, "256: 2@0*128 | 32@0*1 | 4@0*32">, !hopper.frag<i32, "256: 2@0*128 | 32@0*1 | 4@0*32">) -> !hopper.frag<i32, "256: 2@0*128 | 32@0*1 | 4@0*32">
        %16 = hopper.fill %table {loc = #tawa.span<"timed_kernels.py", 39, 25, 39, 36>} : !tawa.ptr<i32> -> !hopper.frag<!tawa.ptr<i32>, "256: 2@0*128 | 32@0*1 | 4@0*32">
        %17 = ew.map addptr(%16, %key) {loc = #tawa.span<"timed_kernels.py", 39, 25, 39, 36>} : (!hopper.frag<!tawa.ptr<i32>, "256: 2@0*128 | 32@0*1 | 4@0*32">, !hopper.frag<i32, "256: 2@0*128 | 32@0*1 | 4@0*32">) -> !hopper.frag<!tawa.ptr<i32>, "256: 2@0*128 | 32@0*1 | 4@0*32">
        %18 = "hopper.global_load"(%17) <{vector = 1 : i64, operandSegmentSizes = array<i32: 1, 0, 0>}> {loc = #tawa.span<"timed_kernels.py", 39, 17, 39, 37>} : (!hopper.frag<!tawa.ptr<i32>, "256: 2@0*128 | 32@0*1 | 4@0*32">) -> !hopper.frag<i32, "256: 2@0*128 | 32@0*1 | 4@0*32">
        %total_3 = ew.map addi(%total_2, %18) {loc = #tawa.span<"timed_kernels.py", 39, 8, 39, 37>} : (!hopper.frag<i32, "256: 2@0*128 | 32@0*1 | 4@0*32">, !hopper.frag<i32, "256: 2@0*128 | 32@0*1 | 4@0*32">) -> !hopper.frag<i32, "256: 2@0*128 | 32@0*1 | 4@0*32">
        scf.if %8 {
          %19 = arith.constant {loc = #tawa.span<"timed_kernels.py", 41, 12, 41, 55>} 1 : i32
          %20 = hopper.fill %counts {loc = #tawa.span<"timed_kernels.py", 41, 26, 41, 38>} : !tawa.ptr<i32> -> !hopper.frag<!tawa.ptr<i32>, "256: 2@0*128 | 32@0*1 | 4@0*32">
          %21 = ew.map addptr(%20, %key) {loc = #tawa.span<"timed_kernels.py", 41, 26, 41, 38>} : (!hopper.frag<!tawa.ptr<i32>, "256: 2@0*128 | 32@0*1 | 4@0*32">, !hopper.frag<i32, "256: 2@0*128 | 32@0*1 | 4@0*32">) -> !hopper.frag<!tawa.ptr<i32>, "256: 2@0*128 | 32@0*1 | 4@0*32">
          %22 = hopper.fill %19 {loc = #tawa.span<"timed_kernels.py", 41, 12, 41, 55>} : i32 -> !hopper.frag<i32, "256: 2@0*128 | 32@0*1 | 4@0*32">
          hopper.cta_sync {loc = #tawa.span<"timed_kernels.py", 41, 12, 41, 55>, hopper.orders_memory}
          hopper.memory_fence "gpu" {loc = #tawa.span<"timed_kernels.py", 41, 12, 41, 55>}
          %23 = "hopper.global_atomic"(%21, %22, %15) <{kind = "addi", scope = "gpu", order = "relaxed", vector = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 1>}> {loc = #tawa.span<"timed_kernels.py", 41, 12, 41, 55>} : (!hopper.frag<!tawa.ptr<i32>, "256: 2@0*128 | 32@0*1 | 4@0*32">, !hopper.frag<i32, "256: 2@0*128 | 32@0*1 | 4@0*32">, !hopper.frag<i1, "256: 2@0*128 | 32@0*1 | 4@0*32">) -> !hopper.frag<i32, "256: 2@0*128 | 32@0*1 | 4@0*32">
        }{loc = #tawa.span<"timed_kernels.py", 40, 8, 41, 55>}
        scf.yield {loc = #tawa.span<"timed_kernels.py", 36, 4, 41, 55>} %total_3 : !hopper.frag<i32, "256: 2@0*128 | 32@0*1 | 4@0*32">
      } {loc = #tawa.span<"timed_kernels.py", 36, 4, 41, 55>}
      %24 = ew.map addptr(%counts, %3) {loc = #tawa.span<"timed_kernels.py", 42, 13, 42, 46>} : (!tawa.ptr<i32>, i32) -> !tawa.ptr<i32>
      %scratch = hopper.smem at 0 {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : !hopper.ring<1, !hopper.tile<1x256xi32, swizzle 0, panel_rows 1>>
      %25 = arith.constant {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} 0 : i32
      %26 = hopper.slot %scratch[%25] {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : !hopper.ring<1, !hopper.tile<1x256xi32, swizzle 0, panel_rows 1>> -> !hopper.tile<1x256xi32, swizzle 0, panel_rows 1>
      hopper.cta_sync {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>, hopper.orders_memory}
      hopper.shared_store %total_1, %26 {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : !hopper.frag<i32, "256: 2@0*128 | 32@0*1 | 4@0*32">, !hopper.tile<1x256xi32, swizzle 0, panel_rows 1>
      hopper.cta_sync {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>}
      %27 = hopper.shared_load %26 {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : !hopper.tile<1x256xi32, swizzle 0, panel_rows 1> -> !hopper.frag<i32, "256: 2@0*1 | 32@0*2 | 4@0*64">
      %28 = "hopper.rearrange"(%27) <{source = array<i64: 0>}> {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i32, "256: 2@0*1 | 32@0*2 | 4@0*64">) -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %29 = "hopper.rearrange"(%27) <{source = array<i64: 1>}> {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i32, "256: 2@0*1 | 32@0*2 | 4@0*64">) -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %30 = arith.constant {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} 31 : i32
      %31 = ew.map addi(%28, %29) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %32 = hopper.coordinate 0 from 0 {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %33 = hopper.fill %30 {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : i32 -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %34 = ew.map andi(%32, %33) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %35 = hopper.shuffle_along %31 below 1 of 32 by 1 {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32"> -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %36 = arith.constant {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} 1 : i32
      %37 = hopper.fill %36 {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : i32 -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %38 = ew.map cmpi_sge(%34, %37) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i1, "128:  | 32@0*1 | 4@0*32">
      %39 = ew.map addi(%35, %31) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %40 = ew.map select(%38, %39, %31) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i1, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %41 = hopper.shuffle_along %40 below 1 of 32 by 2 {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32"> -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %42 = arith.constant {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} 2 : i32
      %43 = hopper.fill %42 {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : i32 -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %44 = ew.map cmpi_sge(%34, %43) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i1, "128:  | 32@0*1 | 4@0*32">
      %45 = ew.map addi(%41, %40) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %46 = ew.map select(%44, %45, %40) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i1, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %47 = hopper.shuffle_along %46 below 1 of 32 by 4 {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32"> -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %48 = arith.constant {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} 4 : i32
      %49 = hopper.fill %48 {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : i32 -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %50 = ew.map cmpi_sge(%34, %49) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i1, "128:  | 32@0*1 | 4@0*32">
      %51 = ew.map addi(%47, %46) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %52 = ew.map select(%50, %51, %46) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i1, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %53 = hopper.shuffle_along %52 below 1 of 32 by 8 {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32"> -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %54 = arith.constant {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} 8 : i32
      %55 = hopper.fill %54 {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : i32 -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %56 = ew.map cmpi_sge(%34, %55) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i1, "128:  | 32@0*1 | 4@0*32">
      %57 = ew.map addi(%53, %52) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %58 = ew.map select(%56, %57, %52) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i1, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %59 = hopper.shuffle_along %58 below 1 of 32 by 16 {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32"> -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %60 = arith.constant {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} 16 : i32
      %61 = hopper.fill %60 {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : i32 -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %62 = ew.map cmpi_sge(%34, %61) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i1, "128:  | 32@0*1 | 4@0*32">
      %63 = ew.map addi(%59, %58) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %64 = ew.map select(%62, %63, %58) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i1, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %65 = hopper.fill %25 {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : i32 -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %66 = ew.map cmpi_ne(%34, %65) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i1, "128:  | 32@0*1 | 4@0*32">
      %67 = hopper.shuffle_along %64 below 1 of 32 by 1 {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32"> -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %68 = hopper.shuffle_along %64 below 1 of 32 by -31 {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32"> -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %69 = arith.constant {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} 5 : i32
      %scratch_1 = hopper.smem at 1024 {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : !hopper.ring<1, !hopper.tile<1x4xi32, swizzle 0, panel_rows 1>>
      %70 = hopper.slot %scratch_1[%25] {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : !hopper.ring<1, !hopper.tile<1x4xi32, swizzle 0, panel_rows 1>> -> !hopper.tile<1x4xi32, swizzle 0, panel_rows 1>
      %71 = hopper.fill %69 {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : i32 -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %72 = ew.map shrsi(%32, %71) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %73 = hopper.relabel %68 {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32"> -> !hopper.frag<i32, "4:  | 32* | 4@0*1">
      hopper.shared_store %73, %70 {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : !hopper.frag<i32, "4:  | 32* | 4@0*1">, !hopper.tile<1x4xi32, swizzle 0, panel_rows 1>
      hopper.cta_sync {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>}
      %74 = hopper.shared_load %70 {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : !hopper.tile<1x4xi32, swizzle 0, panel_rows 1> -> !hopper.frag<i32, "4: 4@0*1 | 32* | 4*">
      %75 = "hopper.rearrange"(%74) <{source = array<i64: 0>}> {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i32, "4: 4@0*1 | 32* | 4*">) -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %76 = "hopper.rearrange"(%74) <{source = array<i64: 1>}> {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i32, "4: 4@0*1 | 32* | 4*">) -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %77 = "hopper.rearrange"(%74) <{source = array<i64: 2>}> {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i32, "4: 4@0*1 | 32* | 4*">) -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %78 = ew.map cmpi_sgt(%72, %37) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i1, "128:  | 32@0*1 | 4@0*32">
      %79 = ew.map addi(%75, %76) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %80 = ew.map select(%78, %79, %75) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i1, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %81 = ew.map cmpi_sgt(%72, %43) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i1, "128:  | 32@0*1 | 4@0*32">
      %82 = ew.map addi(%80, %77) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %83 = ew.map select(%81, %82, %80) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i1, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %84 = ew.map cmpi_ne(%72, %65) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i1, "128:  | 32@0*1 | 4@0*32">
      %85 = ew.map addi(%83, %67) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %86 = ew.map select(%66, %85, %83) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i1, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %87 = ew.map ori(%66, %84) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i1, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i1, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i1, "128:  | 32@0*1 | 4@0*32">
      %88 = ew.map select(%84, %86, %67) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i1, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %89 = ew.map addi(%88, %28) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %90 = ew.map select(%87, %89, %28) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i1, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %91 = ew.map addi(%88, %31) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %92 = ew.map select(%87, %91, %31) {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i1, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">
      %93 = "hopper.assemble"(%90, %92) <{which = array<i64: 0, 1>, registers = array<i64: 0, 0>}> {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : (!hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">, !hopper.frag<i32, "128:  | 32@0*1 | 4@0*32">) -> !hopper.frag<i32, "256: 2@0*1 | 32@0*2 | 4@0*64">
      %scratch_2 = hopper.smem at 0 {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>, hopper.alias} : !hopper.ring<1, !hopper.tile<1x256xi32, swizzle 0, panel_rows 1>>
      %94 = hopper.slot %scratch_2[%25] {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : !hopper.ring<1, !hopper.tile<1x256xi32, swizzle 0, panel_rows 1>> -> !hopper.tile<1x256xi32, swizzle 0, panel_rows 1>
      hopper.shared_store %93, %94 {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : !hopper.frag<i32, "256: 2@0*1 | 32@0*2 | 4@0*64">, !hopper.tile<1x256xi32, swizzle 0, panel_rows 1>
      hopper.cta_sync {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>}
      %95 = hopper.shared_load %94 {loc = #tawa.span<"timed_kernels.py", 42, 70, 42, 89>} : !hopper.tile<1x256xi32, swizzle 0, panel_rows 1> -> !hopper.frag<i32, "256: 2@0*128 | 32@0*1 | 4@0*32">
      %96 = hopper.fill %24 {loc = #tawa.span<"timed_kernels.py", 42, 4, 42, 90>} : !tawa.ptr<i32> -> !hopper.frag<!tawa.ptr<i32>, "256: 2@0*128 | 32@0*1 | 4@0*32">
      %97 = hopper.coordinate 0 from 0 {loc = #tawa.span<"timed_kernels.py", 42, 4, 42, 90>} : !hopper.frag<i32, "256: 2@0*128 | 32@0*1 | 4@0*32">
      %98 = ew.map addptr(%96, %97) {loc = #tawa.span<"timed_kernels.py", 42, 4, 42, 90>} : (!hopper.frag<!tawa.ptr<i32>, "256: 2@0*128 | 32@0*1 | 4@0*32">, !hopper.frag<i32, "256: 2@0*128 | 32@0*1 | 4@0*32">) -> !hopper.frag<!tawa.ptr<i32>, "256: 2@0*128 | 32@0*1 | 4@0*32">
      %99 = "hopper.anchored"(%98) <{anchor = array<i64: 0, 0>, distance = array<i64: 0, 128>}> {loc = #tawa.span<"timed_kernels.py", 42, 4, 42, 90>} : (!hopper.frag<!tawa.ptr<i32>, "256: 2@0*128 | 32@0*1 | 4@0*32">) -> !hopper.frag<!tawa.ptr<i32>, "256: 2@0*128 | 32@0*1 | 4@0*32">
      "hopper.global_store"(%99, %95) <{vector = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>}> {loc = #tawa.span<"timed_kernels.py", 42, 4, 42, 90>} : (!hopper.frag<!tawa.ptr<i32>, "256: 2@0*128 | 32@0*1 | 4@0*32">, !hopper.frag<i32, "256: 2@0*128 | 32@0*1 | 4@0*32">) -> ()
    }) : () -> ()
    func.return
  }
}