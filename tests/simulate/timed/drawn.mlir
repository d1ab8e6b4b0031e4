builtin.module {
  func.func @drawn(%next_tile: !tawa.ptr<i32>, %n: i32, %x: !tawa.ptr<f32>, %y: !tawa.ptr<f32>) attributes {hopper.threads = 128 : i64, hopper.shared_bytes = 8 : i64, hopper.cluster = 1 : i64, hopper.ctas_per_sm = 1 : i64, tawa.spec = "{\22entry\22: \22drawn\22, \22threads\22: 128, \22shared_bytes\22: 8, \22parameters\22: [{\22kind\22: \22PointerParam\22, \22arg\22: 2, \22source\22: \22array\22}, {\22kind\22: \22ScalarParam\22, \22value\22: [\22arg\22, 3], \22type\22: \22i32\22}, {\22kind\22: \22PointerParam\22, \22arg\22: 0, \22source\22: \22array\22}, {\22kind\22: \22PointerParam\22, \22arg\22: 1, \22source\22: \22array\22}], \22arguments\22: [\22x\22, \22y\22, \22next_tile\22, \22n\22], \22cluster\22: [1, 1, 1], \22grid\22: \22plain\22, \22ctas_per_sm\22: 1, \22apart\22: [[\22x\22, \22y\22], [\22x\22, \22next_tile\22], [\22y\22, \22next_tile\22]]}"} {
    "hopper.role"() <{role = "main", first_warp = 0 : i64, warps = 4 : i64, teams = 1 : i64, whole}> ({
      %0 = arith.constant {loc = #tawa.span<"timed_kernels.py", 58, 11, 58, 38>} 2 : i32
      %1 = hopper.fill %next_tile {loc = #tawa.span<"timed_kernels.py", 58, 11, 58, 38>} : !tawa.ptr<i32> -> !hopper.frag<!tawa.ptr<i32>, ":  | 32* | 4*">
      %2 = hopper.fill %0 {loc = #tawa.span<"timed_kernels.py", 58, 11, 58, 38>} : i32 -> !hopper.frag<i32, ":  | 32* | 4*">
      %tile = "hopper.global_atomic"(%1, %2) <{kind = "addi", scope = "gpu", order = "acq_rel", vector = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0>}> {loc = #tawa.span<"timed_kernels.py", 58, 11, 58, 38>} : (!hopper.frag<!tawa.ptr<i32>, ":  | 32* | 4*">, !hopper.frag<i32, ":  | 32* | 4*">) -> !hopper.frag<i32, ":  | 32* | 4*">
      %scratch = hopper.smem at 0 {loc = #tawa.span<"timed_kernels.py", 58, 11, 58, 38>} : !hopper.ring<1, !hopper.tile<1x1xi32, swizzle 0, panel_rows 1>>
      %3 = arith.constant {loc = #tawa.span<"timed_kernels.py", 58, 11, 58, 38>} 0 : i32
      %4 = hopper.slot %scratch[%3] {loc = #tawa.span<"timed_kernels.py", 58, 11, 58, 38>} : !hopper.ring<1, !hopper.tile<1x1xi32, swizzle 0, panel_rows 1>> -> !hopper.tile<1x1xi32, swizzle 0, panel_rows 1>
      hopper.cta_sync {loc = #tawa.span<"timed_kernels.py", 58, 11, 58, 38>}
      hopper.shared_store %tile, %4 {loc = #tawa.span<"timed_kernels.py", 58, 11, 58, 38>} : !hopper.frag<i32, ":  | 32* | 4*">, !hopper.tile<1x1xi32, swizzle 0, panel_rows 1>
      hopper.cta_sync {loc = #tawa.span<"timed_kernels.py", 58, 11, 58, 38>}
      %5 = hopper.shared_load %4 {loc = #tawa.span<"timed_kernels.py", 58, 11, 58, 38>} : !hopper.tile<1x1xi32, swizzle 0, panel_rows 1> -> !hopper.frag<i32, ":  | 32* | 4*">
      %tile_1 = hopper.extract %5 {loc = #tawa.span<"timed_kernels.py", 58, 11, 58, 38>} : !hopper.frag<i32, ":  | 32* | 4*"> -> i32
      %tile_2 = scf.while (%tile_3 = %tile_1) : (i32) -> i32 {
        %6 = arith.constant {loc = #tawa.span<"timed_kernels.py", 59, 10, 59, 22>} 256 : i32
        %7 = ew.map muli(%tile_3, %6) {loc = #tawa.span<"timed_kernels.py", 59, 10, 59, 22>} : (i32, i32) -> i32
        %8 = ew.map cmpi_slt(%7, %n) {loc = #tawa.span<"timed_kernels.py", 59, 10, 59, 26>} : (i32, i32) -> i1
        scf.condition(%8) {loc = #tawa.span<"timed_kernels.py", 59, 4, 62, 42>} %tile_3 : i32
      } do {
      ^bb0(%tile_4: i32):
        %9 = arith.constant {loc = #tawa.span<"timed_kernels.py", 60, 13, 60, 25>} 256 : i32
        %10 = ew.map muli(%tile_4, %9) {loc = #tawa.span<"timed_kernels.py", 60, 13, 60, 25>} : (i32, i32) -> i32
        %11 = hopper.fill %next_tile {loc = #tawa.span<"timed_kernels.py", 62, 15, 62, 42>} : !tawa.ptr<i32> -> !hopper.frag<!tawa.ptr<i32>, ":  | 32* | 4*">
        %12 = hopper.fill %0 {loc = #tawa.span<"timed_kernels.py", 62, 15, 62, 42>} : i32 -> !hopper.frag<i32, ":  | 32* | 4*">
        %13 = hopper.fill %x {loc = #tawa.span<"timed_kernels.py", 61, 33, 61, 61>} : !tawa.ptr<f32> -> !hopper.frag<!tawa.ptr<f32>, "256: 2@0*32 | 32@0*1 | 4@0*64">
        %14 = hopper.fill %10 {loc = #tawa.span<"timed_kernels.py", 61, 33, 61, 61>} : i32 -> !hopper.frag<i32, "256: 2@0*32 | 32@0*1 | 4@0*64">
        %15 = hopper.coordinate 0 from 0 {loc = #tawa.span<"timed_kernels.py", 61, 33, 61, 61>} : !hopper.frag<i32, "256: 2@0*32 | 32@0*1 | 4@0*64">
        %at = ew.map addi(%14, %15) {loc = #tawa.span<"timed_kernels.py", 61, 33, 61, 61>} : (!hopper.frag<i32, "256: 2@0*32 | 32@0*1 | 4@0*64">, !hopper.frag<i32, "256: 2@0*32 | 32@0*1 | 4@0*64">) -> !hopper.frag<i32, "256: 2@0*32 | 32@0*1 | 4@0*64">
        %16 = ew.map addptr(%13, %at) {loc = #tawa.span<"timed_kernels.py", 61, 33, 61, 61>} : (!hopper.frag<!tawa.ptr<f32>, "256: 2@0*32 | 32@0*1 | 4@0*64">, !hopper.frag<i32, "256: 2@0*32 | 32@0*1 | 4@0*64">) -> !hopper.frag<!tawa.ptr<f32>, "256: 2@0*32 | 32@0*1 | 4@0*64">
        %17 = "hopper.anchored"(%16) <{anchor = array<i64: 0, 0>, distance = array<i64: 0, 32>}> {loc = #tawa.span<"timed_kernels.py", 61, 33, 61, 61>} : (!hopper.frag<!tawa.ptr<f32>, "256: 2@0*32 | 32@0*1 | 4@0*64">) -> !hopper.frag<!tawa.ptr<f32>, "256: 2@0*32 | 32@0*1 | 4@0*64">
        %18 = hopper.fill %n {loc = #tawa.span<"timed_kernels.py", 61, 33, 61, 61>} : i32 -> !hopper.frag<i32, "256: 2@0*32 | 32@0*1 | 4@0*64">
        %19 = ew.map cmpi_slt(%at, %18) {loc = #tawa.span<"timed_kernels.py", 61, 33, 61, 61>} : (!hopper.frag<i32, "256: 2@0*32 | 32@0*1 | 4@0*64">, !hopper.frag<i32, "256: 2@0*32 | 32@0*1 | 4@0*64">) -> !hopper.frag<i1, "256: 2@0*32 | 32@0*1 | 4@0*64">
        %20 = "hopper.global_load"(%17, %19) <{vector = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>}> {loc = #tawa.span<"timed_kernels.py", 61, 33, 61, 61>} : (!hopper.frag<!tawa.ptr<f32>, "256: 2@0*32 | 32@0*1 | 4@0*64">, !hopper.frag<i1, "256: 2@0*32 | 32@0*1 | 4@0*64">) -> !hopper.frag<f32, "256: 2@0*32 | 32@0*1 | 4@0*64">
        %21 = ew.map exp2(%20) {loc = #tawa.span<"timed_kernels.py", 61, 25, 61, 62>} : (!hopper.frag<f32, "256: 2@0*32 | 32@0*1 | 4@0*64">) -> !hopper.frag<f32, "256: 2@0*32 | 32@0*1 | 4@0*64">
        %22 = hopper.fill %y {loc = #tawa.span<"timed_kernels.py", 61, 8, 61, 76>} : !tawa.ptr<f32> -> !hopper.frag<!tawa.ptr<f32>, "256: 2@0*32 | 32@0*1 | 4@0*64">
        %23 = ew.map addptr(%22, %at) {loc = #tawa.span<"timed_kernels.py", 61, 8, 61, 76>} : (!hopper.frag<!tawa.ptr<f32>, "256: 2@0*32 | 32@0*1 | 4@0*64">, !hopper.frag<i32, "256: 2@0*32 | 32@0*1 | 4@0*64">) -> !hopper.frag<!tawa.ptr<f32>, "256: 2@0*32 | 32@0*1 | 4@0*64">
        %24 = "hopper.anchored"(%23) <{anchor = array<i64: 0, 0>, distance = array<i64: 0, 32>}> {loc = #tawa.span<"timed_kernels.py", 61, 8, 61, 76>} : (!hopper.frag<!tawa.ptr<f32>, "256: 2@0*32 | 32@0*1 | 4@0*64">) -> !hopper.frag<!tawa.ptr<f32>, "256: 2@0*32 | 32@0*1 | 4@0*64">
        "hopper.global_store"(%24, %21, %19) <{vector = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1>}> {loc = #tawa.span<"timed_kernels.py", 61, 8, 61, 76>} : (!hopper.frag<!tawa.ptr<f32>, "256: 2@0*32 | 32@0*1 | 4@0*64">, !hopper.frag<f32, "256: 2@0*32 | 32@0*1 | 4@0*64">, !hopper.frag<i1, "256: 2@0*32 | 32@0*1 | 4@0*64">) -> ()
        hopper.cta_sync {loc = #tawa.span<"timed_kernels.py", 62, 15, 62, 42>, hopper.orders_memory}
        %tile_5 = "hopper.global_atomic"(%11, %12) <{kind = "addi", scope = "gpu", order = "acq_rel", vector = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0>}> {loc = #tawa.span<"timed_kernels.py", 62, 15, 62, 42>} : (!hopper.frag<!tawa.ptr<i32>, ":  | 32* | 4*">, !hopper.frag<i32, ":  | 32* | 4*">) -> !hopper.frag<i32, ":  | 32* | 4*">
        %scratch_1 = hopper.smem at 0 {loc = #tawa.span<"timed_kernels.py", 62, 15, 62, 42>, hopper.alias} : !hopper.ring<1, !hopper.tile<1x1xi32, swizzle 0, panel_rows 1>>
        %25 = arith.constant {loc = #tawa.span<"timed_kernels.py", 62, 15, 62, 42>} 0 : i32
        %26 = hopper.slot %scratch_1[%25] {loc = #tawa.span<"timed_kernels.py", 62, 15, 62, 42>} : !hopper.ring<1, !hopper.tile<1x1xi32, swizzle 0, panel_rows 1>> -> !hopper.tile<1x1xi32, swizzle 0, panel_rows 1>
        hopper.cta_sync {loc = #tawa.span<"timed_kernels.py", 62, 15, 62, 42>}
        hopper.shared_store %tile_5, %26 {loc = #tawa.span<"timed_kernels.py", 62, 15, 62, 42>} : !hopper.frag<i32, ":  | 32* | 4*">, !hopper.tile<1x1xi32, swizzle 0, panel_rows 1>
        hopper.cta_sync {loc = #tawa.span<"timed_kernels.py", 62, 15, 62, 42>}
        %27 = hopper.shared_load %26 {loc = #tawa.span<"timed_kernels.py", 62, 15, 62, 42>} : !hopper.tile<1x1xi32, swizzle 0, panel_rows 1> -> !hopper.frag<i32, ":  | 32* | 4*">
        %tile_6 = hopper.extract %27 {loc = #tawa.span<"timed_kernels.py", 62, 15, 62, 42>} : !hopper.frag<i32, ":  | 32* | 4*"> -> i32
        scf.yield {loc = #tawa.span<"timed_kernels.py", 59, 4, 62, 42>} %tile_6 : i32
      } attributes {loc = #tawa.span<"timed_kernels.py", 59, 4, 62, 42>}
    }) : () -> ()
    func.return
  }
}