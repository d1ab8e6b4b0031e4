builtin.module {
  func.func @softmax_rows(%columns: i32, %x: !tawa.ptr<f32>, %y: !tawa.ptr<f32>) attributes {hopper.threads = 128 : i64, hopper.shared_bytes = 1040 : i64, hopper.cluster = 1 : i64, hopper.ctas_per_sm = 1 : i64, tawa.spec = "{\22entry\22: \22softmax_rows\22, \22threads\22: 128, \22shared_bytes\22: 1040, \22parameters\22: [{\22kind\22: \22ScalarParam\22, \22value\22: [\22arg\22, 2], \22type\22: \22i32\22}, {\22kind\22: \22PointerParam\22, \22arg\22: 0, \22source\22: \22array\22}, {\22kind\22: \22PointerParam\22, \22arg\22: 1, \22source\22: \22array\22}], \22arguments\22: [\22x\22, \22y\22, \22columns\22], \22cluster\22: [1, 1, 1], \22grid\22: \22plain\22, \22ctas_per_sm\22: 1, \22apart\22: [[\22x\22, \22y\22]]}"} {
    "hopper.role"() <{role = "main", first_warp = 0 : i64, warps = 4 : i64, teams = 1 : i64, whole}> ({
      %row = hopper.block_id 0 {loc = #tawa.span<"timed_kernels.py", 26, 10, 26, 26>}
      %0 = ew.map muli(%row, %columns) {loc = #tawa.span<"timed_kernels.py", 28, 25, 28, 38>} : (i32, i32) -> i32
      %1 = ew.map addptr(%x, %0) {loc = #tawa.span<"timed_kernels.py", 28, 21, 28, 38>} : (!tawa.ptr<f32>, i32) -> !tawa.ptr<f32>
      %2 = arith.constant {loc = #tawa.span<"timed_kernels.py", 28, 13, 28, 84>} 0xff800000 : f32
      %3 = hopper.fill %1 {loc = #tawa.span<"timed_kernels.py", 28, 13, 28, 84>} : !tawa.ptr<f32> -> !hopper.frag<!tawa.ptr<f32>, "1024: 8@0*128 | 32@0*1 | 4@0*32">
      %at = hopper.coordinate 0 from 0 {loc = #tawa.span<"timed_kernels.py", 28, 13, 28, 84>} : !hopper.frag<i32, "1024: 8@0*128 | 32@0*1 | 4@0*32">
      %4 = ew.map addptr(%3, %at) {loc = #tawa.span<"timed_kernels.py", 28, 13, 28, 84>} : (!hopper.frag<!tawa.ptr<f32>, "1024: 8@0*128 | 32@0*1 | 4@0*32">, !hopper.frag<i32, "1024: 8@0*128 | 32@0*1 | 4@0*32">) -> !hopper.frag<!tawa.ptr<f32>, "1024: 8@0*128 | 32@0*1 | 4@0*32">
      %5 = "hopper.anchored"(%4) <{anchor = array<i64: 0, 0, 0, 0, 0, 0, 0, 0>, distance = array<i64: 0, 128, 256, 384, 512, 640, 768, 896>}> {loc = #tawa.span<"timed_kernels.py", 28, 13, 28, 84>} : (!hopper.frag<!tawa.ptr<f32>, "1024: 8@0*128 | 32@0*1 | 4@0*32">) -> !hopper.frag<!tawa.ptr<f32>, "1024: 8@0*128 | 32@0*1 | 4@0*32">
      %6 = hopper.fill %columns {loc = #tawa.span<"timed_kernels.py", 28, 13, 28, 84>} : i32 -> !hopper.frag<i32, "1024: 8@0*128 | 32@0*1 | 4@0*32">
      %7 = ew.map cmpi_slt(%at, %6) {loc = #tawa.span<"timed_kernels.py", 28, 13, 28, 84>} : (!hopper.frag<i32, "1024: 8@0*128 | 32@0*1 | 4@0*32">, !hopper.frag<i32, "1024: 8@0*128 | 32@0*1 | 4@0*32">) -> !hopper.frag<i1, "1024: 8@0*128 | 32@0*1 | 4@0*32">
      %8 = hopper.fill %2 {loc = #tawa.span<"timed_kernels.py", 28, 13, 28, 84>} : f32 -> !hopper.frag<f32, "1024: 8@0*128 | 32@0*1 | 4@0*32">
      %values = "hopper.global_load"(%5, %7, %8) <{vector = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1>}> {loc = #tawa.span<"timed_kernels.py", 28, 13, 28, 84>} : (!hopper.frag<!tawa.ptr<f32>, "1024: 8@0*128 | 32@0*1 | 4@0*32">, !hopper.frag<i1, "1024: 8@0*128 | 32@0*1 | 4@0*32">, !hopper.frag<f32, "1024: 8@0*128 | 32@0*1 | 4@0*32">) -> !hopper.frag<f32, "1024: 8@0*128 | 32@0*1 | 4@0*32">
      %9 = hopper.reduce_registers "maxnumf" %values axis 0 {loc = #tawa.span<"timed_kernels.py", 29, 29, 29, 51>} : !hopper.frag<f32, "1024: 8@0*128 | 32@0*1 | 4@0*32"> -> !hopper.frag<f32, ":  | 32* | 4*">
      %10 = hopper.reduce_lanes "maxnumf" %9 {loc = #tawa.span<"timed_kernels.py", 29, 29, 29, 51>} : !hopper.frag<f32, ":  | 32* | 4*"> -> !hopper.frag<f32, ":  | 32* | 4*">
      %scratch = hopper.smem at 0 {loc = #tawa.span<"timed_kernels.py", 29, 29, 29, 51>} : !hopper.ring<1, !hopper.tile<1x4xf32, swizzle 0, panel_rows 1>>
      %11 = arith.constant {loc = #tawa.span<"timed_kernels.py", 29, 29, 29, 51>} 0 : i32
      %12 = hopper.slot %scratch[%11] {loc = #tawa.span<"timed_kernels.py", 29, 29, 29, 51>} : !hopper.ring<1, !hopper.tile<1x4xf32, swizzle 0, panel_rows 1>> -> !hopper.tile<1x4xf32, swizzle 0, panel_rows 1>
      %13 = hopper.relabel %10 {loc = #tawa.span<"timed_kernels.py", 29, 29, 29, 51>} : !hopper.frag<f32, ":  | 32* | 4*"> -> !hopper.frag<f32, "1x4:  | 32* | 4@1*1">
      hopper.shared_store %13, %12 {loc = #tawa.span<"timed_kernels.py", 29, 29, 29, 51>} : !hopper.frag<f32, "1x4:  | 32* | 4@1*1">, !hopper.tile<1x4xf32, swizzle 0, panel_rows 1>
      hopper.cta_sync {loc = #tawa.span<"timed_kernels.py", 29, 29, 29, 51>}
      %14 = hopper.shared_load %12 {loc = #tawa.span<"timed_kernels.py", 29, 29, 29, 51>} : !hopper.tile<1x4xf32, swizzle 0, panel_rows 1> -> !hopper.frag<f32, "1x4: 4@1*1 | 32* | 4*">
      %15 = hopper.relabel %14 {loc = #tawa.span<"timed_kernels.py", 29, 29, 29, 51>} : !hopper.frag<f32, "1x4: 4@1*1 | 32* | 4*"> -> !hopper.frag<f32, "4x1: 4@0*1 | 32* | 4*">
      %16 = hopper.reduce_registers "maxnumf" %15 axis 0 {loc = #tawa.span<"timed_kernels.py", 29, 29, 29, 51>} : !hopper.frag<f32, "4x1: 4@0*1 | 32* | 4*"> -> !hopper.frag<f32, "1:  | 32* | 4*">
      %17 = hopper.relabel %16 {loc = #tawa.span<"timed_kernels.py", 29, 29, 29, 51>} : !hopper.frag<f32, "1:  | 32* | 4*"> -> !hopper.frag<f32, ":  | 32* | 4*">
      %18 = hopper.extract %17 {loc = #tawa.span<"timed_kernels.py", 29, 29, 29, 51>} : !hopper.frag<f32, ":  | 32* | 4*"> -> f32
      %19 = ew.map addptr(%y, %0) {loc = #tawa.span<"timed_kernels.py", 30, 13, 30, 30>} : (!tawa.ptr<f32>, i32) -> !tawa.ptr<f32>
      %20 = hopper.fill %18 {loc = #tawa.span<"timed_kernels.py", 29, 20, 29, 51>} : f32 -> !hopper.frag<f32, "1024: 8@0*128 | 32@0*1 | 4@0*32">
      %21 = ew.map subf(%values, %20) {loc = #tawa.span<"timed_kernels.py", 29, 20, 29, 51>} : (!hopper.frag<f32, "1024: 8@0*128 | 32@0*1 | 4@0*32">, !hopper.frag<f32, "1024: 8@0*128 | 32@0*1 | 4@0*32">) -> !hopper.frag<f32, "1024: 8@0*128 | 32@0*1 | 4@0*32">
      %values_1 = ew.map exp(%21) {loc = #tawa.span<"timed_kernels.py", 29, 13, 29, 52>} : (!hopper.frag<f32, "1024: 8@0*128 | 32@0*1 | 4@0*32">) -> !hopper.frag<f32, "1024: 8@0*128 | 32@0*1 | 4@0*32">
      %22 = hopper.reduce_registers "addf" %values_1 axis 0 {loc = #tawa.span<"timed_kernels.py", 30, 46, 30, 68>} : !hopper.frag<f32, "1024: 8@0*128 | 32@0*1 | 4@0*32"> -> !hopper.frag<f32, ":  | 32* | 4*">
      %23 = hopper.shuffle_xor %22, 1 {loc = #tawa.span<"timed_kernels.py", 30, 46, 30, 68>} : !hopper.frag<f32, ":  | 32* | 4*"> -> !hopper.frag<f32, ":  | 32* | 4*">
      %24 = ew.map addf(%22, %23) {loc = #tawa.span<"timed_kernels.py", 30, 46, 30, 68>} : (!hopper.frag<f32, ":  | 32* | 4*">, !hopper.frag<f32, ":  | 32* | 4*">) -> !hopper.frag<f32, ":  | 32* | 4*">
      %25 = hopper.shuffle_xor %24, 2 {loc = #tawa.span<"timed_kernels.py", 30, 46, 30, 68>} : !hopper.frag<f32, ":  | 32* | 4*"> -> !hopper.frag<f32, ":  | 32* | 4*">
      %26 = ew.map addf(%24, %25) {loc = #tawa.span<"timed_kernels.py", 30, 46, 30, 68>} : (!hopper.frag<f32, ":  | 32* | 4*">, !hopper.frag<f32, ":  | 32* | 4*">) -> !hopper.frag<f32, ":  | 32* | 4*">
      %27 = hopper.shuffle_xor %26, 4 {loc = #tawa.span<"timed_kernels.py", 30, 46, 30, 68>} : !hopper.frag<f32, ":  | 32* | 4*"> -> !hopper.frag<f32, ":  | 32* | 4*">
      %28 = ew.map addf(%26, %27) {loc = #tawa.span<"timed_kernels.py", 30, 46, 30, 68>} : (!hopper.frag<f32, ":  | 32* | 4*">, !hopper.frag<f32, ":  | 32* | 4*">) -> !hopper.frag<f32, ":  | 32* | 4*">
      %29 = hopper.shuffle_xor %28, 8 {loc = #tawa.span<"timed_kernels.py", 30, 46, 30, 68>} : !hopper.frag<f32, ":  | 32* | 4*"> -> !hopper.frag<f32, ":  | 32* | 4*">
      %30 = ew.map addf(%28, %29) {loc = #tawa.span<"timed_kernels.py", 30, 46, 30, 68>} : (!hopper.frag<f32, ":  | 32* | 4*">, !hopper.frag<f32, ":  | 32* | 4*">) -> !hopper.frag<f32, ":  | 32* | 4*">
      %31 = hopper.shuffle_xor %30, 16 {loc = #tawa.span<"timed_kernels.py", 30, 46, 30, 68>} : !hopper.frag<f32, ":  | 32* | 4*"> -> !hopper.frag<f32, ":  | 32* | 4*">
      %scratch_1 = hopper.smem at 1024 {loc = #tawa.span<"timed_kernels.py", 30, 46, 30, 68>} : !hopper.ring<1, !hopper.tile<1x4xf32, swizzle 0, panel_rows 1>>
      %32 = arith.constant {loc = #tawa.span<"timed_kernels.py", 30, 46, 30, 68>} 0 : i32
      %33 = hopper.slot %scratch_1[%32] {loc = #tawa.span<"timed_kernels.py", 30, 46, 30, 68>} : !hopper.ring<1, !hopper.tile<1x4xf32, swizzle 0, panel_rows 1>> -> !hopper.tile<1x4xf32, swizzle 0, panel_rows 1>
      %34 = ew.map addf(%30, %31) {loc = #tawa.span<"timed_kernels.py", 30, 46, 30, 68>} : (!hopper.frag<f32, ":  | 32* | 4*">, !hopper.frag<f32, ":  | 32* | 4*">) -> !hopper.frag<f32, ":  | 32* | 4*">
      %35 = hopper.relabel %34 {loc = #tawa.span<"timed_kernels.py", 30, 46, 30, 68>} : !hopper.frag<f32, ":  | 32* | 4*"> -> !hopper.frag<f32, "1x4:  | 32* | 4@1*1">
      hopper.shared_store %35, %33 {loc = #tawa.span<"timed_kernels.py", 30, 46, 30, 68>} : !hopper.frag<f32, "1x4:  | 32* | 4@1*1">, !hopper.tile<1x4xf32, swizzle 0, panel_rows 1>
      hopper.cta_sync {loc = #tawa.span<"timed_kernels.py", 30, 46, 30, 68>}
      %36 = hopper.shared_load %33 {loc = #tawa.span<"timed_kernels.py", 30, 46, 30, 68>} : !hopper.tile<1x4xf32, swizzle 0, panel_rows 1> -> !hopper.frag<f32, "1x4: 4@1*1 | 32* | 4*">
      %37 = hopper.relabel %36 {loc = #tawa.span<"timed_kernels.py", 30, 46, 30, 68>} : !hopper.frag<f32, "1x4: 4@1*1 | 32* | 4*"> -> !hopper.frag<f32, "4x1: 4@0*1 | 32* | 4*">
      %38 = hopper.reduce_registers "addf" %37 axis 0 {loc = #tawa.span<"timed_kernels.py", 30, 46, 30, 68>} : !hopper.frag<f32, "4x1: 4@0*1 | 32* | 4*"> -> !hopper.frag<f32, "1:  | 32* | 4*">
      %39 = hopper.relabel %38 {loc = #tawa.span<"timed_kernels.py", 30, 46, 30, 68>} : !hopper.frag<f32, "1:  | 32* | 4*"> -> !hopper.frag<f32, ":  | 32* | 4*">
      %40 = hopper.extract %39 {loc = #tawa.span<"timed_kernels.py", 30, 46, 30, 68>} : !hopper.frag<f32, ":  | 32* | 4*"> -> f32
      %41 = hopper.fill %40 {loc = #tawa.span<"timed_kernels.py", 30, 37, 30, 68>} : f32 -> !hopper.frag<f32, "1024: 8@0*128 | 32@0*1 | 4@0*32">
      %42 = ew.map divf(%values_1, %41) {loc = #tawa.span<"timed_kernels.py", 30, 37, 30, 68>} : (!hopper.frag<f32, "1024: 8@0*128 | 32@0*1 | 4@0*32">, !hopper.frag<f32, "1024: 8@0*128 | 32@0*1 | 4@0*32">) -> !hopper.frag<f32, "1024: 8@0*128 | 32@0*1 | 4@0*32">
      %43 = hopper.fill %19 {loc = #tawa.span<"timed_kernels.py", 30, 4, 30, 88>} : !tawa.ptr<f32> -> !hopper.frag<!tawa.ptr<f32>, "1024: 8@0*128 | 32@0*1 | 4@0*32">
      %44 = ew.map addptr(%43, %at) {loc = #tawa.span<"timed_kernels.py", 30, 4, 30, 88>} : (!hopper.frag<!tawa.ptr<f32>, "1024: 8@0*128 | 32@0*1 | 4@0*32">, !hopper.frag<i32, "1024: 8@0*128 | 32@0*1 | 4@0*32">) -> !hopper.frag<!tawa.ptr<f32>, "1024: 8@0*128 | 32@0*1 | 4@0*32">
      %45 = "hopper.anchored"(%44) <{anchor = array<i64: 0, 0, 0, 0, 0, 0, 0, 0>, distance = array<i64: 0, 128, 256, 384, 512, 640, 768, 896>}> {loc = #tawa.span<"timed_kernels.py", 30, 4, 30, 88>} : (!hopper.frag<!tawa.ptr<f32>, "1024: 8@0*128 | 32@0*1 | 4@0*32">) -> !hopper.frag<!tawa.ptr<f32>, "1024: 8@0*128 | 32@0*1 | 4@0*32">
      "hopper.global_store"(%45, %42, %7) <{vector = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1>}> {loc = #tawa.span<"timed_kernels.py", 30, 4, 30, 88>} : (!hopper.frag<!tawa.ptr<f32>, "1024: 8@0*128 | 32@0*1 | 4@0*32">, !hopper.frag<f32, "1024: 8@0*128 | 32@0*1 | 4@0*32">, !hopper.frag<i1, "1024: 8@0*128 | 32@0*1 | 4@0*32">) -> ()
    }) : () -> ()
    func.return
  }
}