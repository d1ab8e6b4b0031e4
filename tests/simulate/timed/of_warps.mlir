builtin.module {
  func.func @product(%k: i32, %a: !tawa.ptr<f16>, %b: !tawa.ptr<f16>, %c: !tawa.ptr<f16>) attributes {hopper.threads = 128 : i64, hopper.shared_bytes = 4608 : i64, hopper.cluster = 1 : i64, hopper.ctas_per_sm = 9 : i64, tawa.spec = "{\22entry\22: \22product\22, \22threads\22: 128, \22shared_bytes\22: 4608, \22parameters\22: [{\22kind\22: \22ScalarParam\22, \22value\22: [\22arg\22, 3], \22type\22: \22i32\22}, {\22kind\22: \22PointerParam\22, \22arg\22: 0, \22source\22: \22array\22}, {\22kind\22: \22PointerParam\22, \22arg\22: 1, \22source\22: \22array\22}, {\22kind\22: \22PointerParam\22, \22arg\22: 2, \22source\22: \22array\22}], \22arguments\22: [\22a\22, \22b\22, \22c\22, \22k\22], \22cluster\22: [1, 1, 1], \22grid\22: \22plain\22, \22ctas_per_sm\22: 1, \22apart\22: [[\22a\22, \22c\22], [\22b\22, \22c\22]]}"} {
    "hopper.role"() <{role = "main", first_warp = 0 : i64, warps = 4 : i64, teams = 1 : i64}> ({
      %0 = arith.constant {loc = #tawa.span<"timed_kernels.py", 48, 12, 48, 40>} 0.000000e+00 : f32
      %1 = arith.constant {loc = #tawa.span<"timed_kernels.py", 49, 17, 49, 32>} 0 : i32
      %2 = arith.constant {loc = #tawa.span<"timed_kernels.py", 49, 17, 49, 32>} 64 : i32
      %3 = arith.constant {loc = #tawa.span<"timed_kernels.py", 51, 24, 51, 52>} 16 : i32
      %4 = ew.map cmpi_slt(%1, %k) {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (i32, i32) -> i1
      %5, %6 = scf.if %4 -> (!hopper.frag<f16, "16x64: 2@1*1 4@0*4 | 32@1*2 | 4@0*1">, !hopper.frag<f16, "64x16: 2@1*1 4@0*16 | 8@1*2 4@0*1 | 4@0*4">) {
        %7 = hopper.fill %a {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : !tawa.ptr<f16> -> !hopper.frag<!tawa.ptr<f16>, "16x1: 4@0*4 | 32* | 4@0*1">
        %rows = hopper.coordinate 0 from 0 {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : !hopper.frag<i32, "16: 4@0*4 | 32* | 4@0*1">
        %8 = "hopper.rearrange"(%rows) <{source = array<i64: 0, 1, 2, 3>}> {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (!hopper.frag<i32, "16: 4@0*4 | 32* | 4@0*1">) -> !hopper.frag<i32, "16x1: 4@0*4 | 32* | 4@0*1">
        %9 = hopper.fill %k {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : i32 -> !hopper.frag<i32, "16x1: 4@0*4 | 32* | 4@0*1">
        %10 = ew.map muli(%8, %9) {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (!hopper.frag<i32, "16x1: 4@0*4 | 32* | 4@0*1">, !hopper.frag<i32, "16x1: 4@0*4 | 32* | 4@0*1">) -> !hopper.frag<i32, "16x1: 4@0*4 | 32* | 4@0*1">
        %11 = ew.map addptr(%7, %10) {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (!hopper.frag<!tawa.ptr<f16>, "16x1: 4@0*4 | 32* | 4@0*1">, !hopper.frag<i32, "16x1: 4@0*4 | 32* | 4@0*1">) -> !hopper.frag<!tawa.ptr<f16>, "16x1: 4@0*4 | 32* | 4@0*1">
        %12 = "hopper.rearrange"(%11) <{source = array<i64: 0, 0, 1, 1, 2, 2, 3, 3>}> {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (!hopper.frag<!tawa.ptr<f16>, "16x1: 4@0*4 | 32* | 4@0*1">) -> !hopper.frag<!tawa.ptr<f16>, "16x64: 2@1*1 4@0*4 | 32@1*2 | 4@0*1">
        %13 = hopper.fill %1 {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : i32 -> !hopper.frag<i32, "64: 2@0*1 | 32@0*2 | 4*">
        %depth = hopper.coordinate 0 from 0 {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : !hopper.frag<i32, "64: 2@0*1 | 32@0*2 | 4*">
        %14 = ew.map addi(%13, %depth) {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (!hopper.frag<i32, "64: 2@0*1 | 32@0*2 | 4*">, !hopper.frag<i32, "64: 2@0*1 | 32@0*2 | 4*">) -> !hopper.frag<i32, "64: 2@0*1 | 32@0*2 | 4*">
        %15 = "hopper.rearrange"(%14) <{source = array<i64: 0, 1>}> {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (!hopper.frag<i32, "64: 2@0*1 | 32@0*2 | 4*">) -> !hopper.frag<i32, "1x64: 2@1*1 | 32@1*2 | 4*">
        %16 = "hopper.rearrange"(%15) <{source = array<i64: 0, 1, 0, 1, 0, 1, 0, 1>}> {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (!hopper.frag<i32, "1x64: 2@1*1 | 32@1*2 | 4*">) -> !hopper.frag<i32, "16x64: 2@1*1 4@0*4 | 32@1*2 | 4@0*1">
        %17 = ew.map addptr(%12, %16) {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (!hopper.frag<!tawa.ptr<f16>, "16x64: 2@1*1 4@0*4 | 32@1*2 | 4@0*1">, !hopper.frag<i32, "16x64: 2@1*1 4@0*4 | 32@1*2 | 4@0*1">) -> !hopper.frag<!tawa.ptr<f16>, "16x64: 2@1*1 4@0*4 | 32@1*2 | 4@0*1">
        %18 = "hopper.anchored"(%17) <{anchor = array<i64: 0, 0, 2, 2, 4, 4, 6, 6>, distance = array<i64: 0, 1, 0, 1, 0, 1, 0, 1>}> {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (!hopper.frag<!tawa.ptr<f16>, "16x64: 2@1*1 4@0*4 | 32@1*2 | 4@0*1">) -> !hopper.frag<!tawa.ptr<f16>, "16x64: 2@1*1 4@0*4 | 32@1*2 | 4@0*1">
        %x = "hopper.global_load"(%18) <{vector = 1 : i64, operandSegmentSizes = array<i32: 1, 0, 0>}> {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (!hopper.frag<!tawa.ptr<f16>, "16x64: 2@1*1 4@0*4 | 32@1*2 | 4@0*1">) -> !hopper.frag<f16, "16x64: 2@1*1 4@0*4 | 32@1*2 | 4@0*1">
        %19 = hopper.fill %b {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : !tawa.ptr<f16> -> !hopper.frag<!tawa.ptr<f16>, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">
        %20 = hopper.fill %1 {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : i32 -> !hopper.frag<i32, "64: 4@0*16 | 8* 4@0*1 | 4@0*4">
        %depth_1 = hopper.coordinate 0 from 0 {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : !hopper.frag<i32, "64: 4@0*16 | 8* 4@0*1 | 4@0*4">
        %21 = ew.map addi(%20, %depth_1) {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (!hopper.frag<i32, "64: 4@0*16 | 8* 4@0*1 | 4@0*4">, !hopper.frag<i32, "64: 4@0*16 | 8* 4@0*1 | 4@0*4">) -> !hopper.frag<i32, "64: 4@0*16 | 8* 4@0*1 | 4@0*4">
        %22 = "hopper.rearrange"(%21) <{source = array<i64: 0, 1, 2, 3>}> {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (!hopper.frag<i32, "64: 4@0*16 | 8* 4@0*1 | 4@0*4">) -> !hopper.frag<i32, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">
        %23 = hopper.fill %3 {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : i32 -> !hopper.frag<i32, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">
        %24 = ew.map muli(%22, %23) {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (!hopper.frag<i32, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">, !hopper.frag<i32, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">) -> !hopper.frag<i32, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">
        %25 = ew.map addptr(%19, %24) {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (!hopper.frag<!tawa.ptr<f16>, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">, !hopper.frag<i32, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">) -> !hopper.frag<!tawa.ptr<f16>, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">
        %26 = "hopper.rearrange"(%25) <{source = array<i64: 0, 0, 1, 1, 2, 2, 3, 3>}> {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (!hopper.frag<!tawa.ptr<f16>, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">) -> !hopper.frag<!tawa.ptr<f16>, "64x16: 2@1*1 4@0*16 | 8@1*2 4@0*1 | 4@0*4">
        %rows_1 = hopper.coordinate 0 from 0 {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : !hopper.frag<i32, "16: 2@0*1 | 8@0*2 4* | 4*">
        %27 = "hopper.rearrange"(%rows_1) <{source = array<i64: 0, 1>}> {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (!hopper.frag<i32, "16: 2@0*1 | 8@0*2 4* | 4*">) -> !hopper.frag<i32, "1x16: 2@1*1 | 8@1*2 4* | 4*">
        %28 = "hopper.rearrange"(%27) <{source = array<i64: 0, 1, 0, 1, 0, 1, 0, 1>}> {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (!hopper.frag<i32, "1x16: 2@1*1 | 8@1*2 4* | 4*">) -> !hopper.frag<i32, "64x16: 2@1*1 4@0*16 | 8@1*2 4@0*1 | 4@0*4">
        %29 = ew.map addptr(%26, %28) {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (!hopper.frag<!tawa.ptr<f16>, "64x16: 2@1*1 4@0*16 | 8@1*2 4@0*1 | 4@0*4">, !hopper.frag<i32, "64x16: 2@1*1 4@0*16 | 8@1*2 4@0*1 | 4@0*4">) -> !hopper.frag<!tawa.ptr<f16>, "64x16: 2@1*1 4@0*16 | 8@1*2 4@0*1 | 4@0*4">
        %30 = "hopper.anchored"(%29) <{anchor = array<i64: 0, 0, 2, 2, 4, 4, 6, 6>, distance = array<i64: 0, 1, 0, 1, 0, 1, 0, 1>}> {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (!hopper.frag<!tawa.ptr<f16>, "64x16: 2@1*1 4@0*16 | 8@1*2 4@0*1 | 4@0*4">) -> !hopper.frag<!tawa.ptr<f16>, "64x16: 2@1*1 4@0*16 | 8@1*2 4@0*1 | 4@0*4">
        %y = "hopper.global_load"(%30) <{vector = 1 : i64, operandSegmentSizes = array<i32: 1, 0, 0>}> {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (!hopper.frag<!tawa.ptr<f16>, "64x16: 2@1*1 4@0*16 | 8@1*2 4@0*1 | 4@0*4">) -> !hopper.frag<f16, "64x16: 2@1*1 4@0*16 | 8@1*2 4@0*1 | 4@0*4">
        scf.yield {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} %x, %y : !hopper.frag<f16, "16x64: 2@1*1 4@0*4 | 32@1*2 | 4@0*1">, !hopper.frag<f16, "64x16: 2@1*1 4@0*16 | 8@1*2 4@0*1 | 4@0*4">
      } else {
        %31 = arith.constant {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} 0.000000e+00 : f16
        %32 = hopper.fill %31 {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : f16 -> !hopper.frag<f16, "16x64: 2@1*1 4@0*4 | 32@1*2 | 4@0*1">
        %33 = hopper.fill %31 {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : f16 -> !hopper.frag<f16, "64x16: 2@1*1 4@0*16 | 8@1*2 4@0*1 | 4@0*4">
        scf.yield {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} %32, %33 : !hopper.frag<f16, "16x64: 2@1*1 4@0*4 | 32@1*2 | 4@0*1">, !hopper.frag<f16, "64x16: 2@1*1 4@0*16 | 8@1*2 4@0*1 | 4@0*4">
      }{loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>}
      %total = hopper.fill %0 {loc = #tawa.span<"timed_kernels.py", 49, 4, 52, 35>} : f32 -> !hopper.frag<f32, "16x16: 2@1*1 2@0*8 | 4@1*2 8@0*1 | 2@1*8 2*">
      %total_1, %34, %35 = scf.for %start = %1 to %k step %2 iter_args(%total_2 = %total, %x_1 = %5, %y_1 = %6) -> (!hopper.frag<f32, "16x16: 2@1*1 2@0*8 | 4@1*2 8@0*1 | 2@1*8 2*">, !hopper.frag<f16, "16x64: 2@1*1 4@0*4 | 32@1*2 | 4@0*1">, !hopper.frag<f16, "64x16: 2@1*1 4@0*16 | 8@1*2 4@0*1 | 4@0*4">) : i32 {
        %36 = ew.map addi(%start, %2) {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (i32, i32) -> i32
        %37 = ew.map cmpi_slt(%36, %k) {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (i32, i32) -> i1
        %38, %39 = scf.if %37 -> (!hopper.frag<f16, "16x64: 2@1*1 4@0*4 | 32@1*2 | 4@0*1">, !hopper.frag<f16, "64x16: 2@1*1 4@0*16 | 8@1*2 4@0*1 | 4@0*4">) {
          %40 = hopper.fill %a {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : !tawa.ptr<f16> -> !hopper.frag<!tawa.ptr<f16>, "16x1: 4@0*4 | 32* | 4@0*1">
          %rows_2 = hopper.coordinate 0 from 0 {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : !hopper.frag<i32, "16: 4@0*4 | 32* | 4@0*1">
          %41 = "hopper.rearrange"(%rows_2) <{source = array<i64: 0, 1, 2, 3>}> {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (!hopper.frag<i32, "16: 4@0*4 | 32* | 4@0*1">) -> !hopper.frag<i32, "16x1: 4@0*4 | 32* | 4@0*1">
          %42 = hopper.fill %k {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : i32 -> !hopper.frag<i32, "16x1: 4@0*4 | 32* | 4@0*1">
          %43 = ew.map muli(%41, %42) {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (!hopper.frag<i32, "16x1: 4@0*4 | 32* | 4@0*1">, !hopper.frag<i32, "16x1: 4@0*4 | 32* | 4@0*1">) -> !hopper.frag<i32, "16x1: 4@0*4 | 32* | 4@0*1">
          %44 = ew.map addptr(%40, %43) {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (!hopper.frag<!tawa.ptr<f16>, "16x1: 4@0*4 | 32* | 4@0*1">, !hopper.frag<i32, "16x1: 4@0*4 | 32* | 4@0*1">) -> !hopper.frag<!tawa.ptr<f16>, "16x1: 4@0*4 | 32* | 4@0*1">
          %45 = "hopper.rearrange"(%44) <{source = array<i64: 0, 0, 1, 1, 2, 2, 3, 3>}> {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (!hopper.frag<!tawa.ptr<f16>, "16x1: 4@0*4 | 32* | 4@0*1">) -> !hopper.frag<!tawa.ptr<f16>, "16x64: 2@1*1 4@0*4 | 32@1*2 | 4@0*1">
          %46 = hopper.fill %36 {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : i32 -> !hopper.frag<i32, "64: 2@0*1 | 32@0*2 | 4*">
          %depth_2 = hopper.coordinate 0 from 0 {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : !hopper.frag<i32, "64: 2@0*1 | 32@0*2 | 4*">
          %47 = ew.map addi(%46, %depth_2) {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (!hopper.frag<i32, "64: 2@0*1 | 32@0*2 | 4*">, !hopper.frag<i32, "64: 2@0*1 | 32@0*2 | 4*">) -> !hopper.frag<i32, "64: 2@0*1 | 32@0*2 | 4*">
          %48 = "hopper.rearrange"(%47) <{source = array<i64: 0, 1>}> {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (!hopper.frag<i32, "64: 2@0*1 | 32@0*2 | 4*">) -> !hopper.frag<i32, "1x64: 2@1*1 | 32@1*2 | 4*">
          %49 = "hopper.rearrange"(%48) <{source = array<i64: 0, 1, 0, 1, 0, 1, 0, 1>}> {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (!hopper.frag<i32, "1x64: 2@1*1 | 32@1*2 | 4*">) -> !hopper.frag<i32, "16x64: 2@1*1 4@0*4 | 32@1*2 | 4@0*1">
          %50 = ew.map addptr(%45, %49) {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (!hopper.frag<!tawa.ptr<f16>, "16x64: 2@1*1 4@0*4 | 32@1*2 | 4@0*1">, !hopper.frag<i32, "16x64: 2@1*1 4@0*4 | 32@1*2 | 4@0*1">) -> !hopper.frag<!tawa.ptr<f16>, "16x64: 2@1*1 4@0*4 | 32@1*2 | 4@0*1">
          %51 = "hopper.anchored"(%50) <{anchor = array<i64: 0, 0, 2, 2, 4, 4, 6, 6>, distance = array<i64: 0, 1, 0, 1, 0, 1, 0, 1>}> {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (!hopper.frag<!tawa.ptr<f16>, "16x64: 2@1*1 4@0*4 | 32@1*2 | 4@0*1">) -> !hopper.frag<!tawa.ptr<f16>, "16x64: 2@1*1 4@0*4 | 32@1*2 | 4@0*1">
          %x_2 = "hopper.global_load"(%51) <{vector = 1 : i64, operandSegmentSizes = array<i32: 1, 0, 0>}> {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} : (!hopper.frag<!tawa.ptr<f16>, "16x64: 2@1*1 4@0*4 | 32@1*2 | 4@0*1">) -> !hopper.frag<f16, "16x64: 2@1*1 4@0*4 | 32@1*2 | 4@0*1">
          %52 = hopper.fill %b {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : !tawa.ptr<f16> -> !hopper.frag<!tawa.ptr<f16>, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">
          %53 = hopper.fill %36 {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : i32 -> !hopper.frag<i32, "64: 4@0*16 | 8* 4@0*1 | 4@0*4">
          %depth_3 = hopper.coordinate 0 from 0 {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : !hopper.frag<i32, "64: 4@0*16 | 8* 4@0*1 | 4@0*4">
          %54 = ew.map addi(%53, %depth_3) {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (!hopper.frag<i32, "64: 4@0*16 | 8* 4@0*1 | 4@0*4">, !hopper.frag<i32, "64: 4@0*16 | 8* 4@0*1 | 4@0*4">) -> !hopper.frag<i32, "64: 4@0*16 | 8* 4@0*1 | 4@0*4">
          %55 = "hopper.rearrange"(%54) <{source = array<i64: 0, 1, 2, 3>}> {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (!hopper.frag<i32, "64: 4@0*16 | 8* 4@0*1 | 4@0*4">) -> !hopper.frag<i32, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">
          %56 = hopper.fill %3 {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : i32 -> !hopper.frag<i32, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">
          %57 = ew.map muli(%55, %56) {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (!hopper.frag<i32, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">, !hopper.frag<i32, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">) -> !hopper.frag<i32, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">
          %58 = ew.map addptr(%52, %57) {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (!hopper.frag<!tawa.ptr<f16>, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">, !hopper.frag<i32, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">) -> !hopper.frag<!tawa.ptr<f16>, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">
          %59 = "hopper.rearrange"(%58) <{source = array<i64: 0, 0, 1, 1, 2, 2, 3, 3>}> {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (!hopper.frag<!tawa.ptr<f16>, "64x1: 4@0*16 | 8* 4@0*1 | 4@0*4">) -> !hopper.frag<!tawa.ptr<f16>, "64x16: 2@1*1 4@0*16 | 8@1*2 4@0*1 | 4@0*4">
          %rows_3 = hopper.coordinate 0 from 0 {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : !hopper.frag<i32, "16: 2@0*1 | 8@0*2 4* | 4*">
          %60 = "hopper.rearrange"(%rows_3) <{source = array<i64: 0, 1>}> {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (!hopper.frag<i32, "16: 2@0*1 | 8@0*2 4* | 4*">) -> !hopper.frag<i32, "1x16: 2@1*1 | 8@1*2 4* | 4*">
          %61 = "hopper.rearrange"(%60) <{source = array<i64: 0, 1, 0, 1, 0, 1, 0, 1>}> {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (!hopper.frag<i32, "1x16: 2@1*1 | 8@1*2 4* | 4*">) -> !hopper.frag<i32, "64x16: 2@1*1 4@0*16 | 8@1*2 4@0*1 | 4@0*4">
          %62 = ew.map addptr(%59, %61) {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (!hopper.frag<!tawa.ptr<f16>, "64x16: 2@1*1 4@0*16 | 8@1*2 4@0*1 | 4@0*4">, !hopper.frag<i32, "64x16: 2@1*1 4@0*16 | 8@1*2 4@0*1 | 4@0*4">) -> !hopper.frag<!tawa.ptr<f16>, "64x16: 2@1*1 4@0*16 | 8@1*2 4@0*1 | 4@0*4">
          %63 = "hopper.anchored"(%62) <{anchor = array<i64: 0, 0, 2, 2, 4, 4, 6, 6>, distance = array<i64: 0, 1, 0, 1, 0, 1, 0, 1>}> {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (!hopper.frag<!tawa.ptr<f16>, "64x16: 2@1*1 4@0*16 | 8@1*2 4@0*1 | 4@0*4">) -> !hopper.frag<!tawa.ptr<f16>, "64x16: 2@1*1 4@0*16 | 8@1*2 4@0*1 | 4@0*4">
          %y_2 = "hopper.global_load"(%63) <{vector = 1 : i64, operandSegmentSizes = array<i32: 1, 0, 0>}> {loc = #tawa.span<"timed_kernels.py", 51, 12, 51, 72>} : (!hopper.frag<!tawa.ptr<f16>, "64x16: 2@1*1 4@0*16 | 8@1*2 4@0*1 | 4@0*4">) -> !hopper.frag<f16, "64x16: 2@1*1 4@0*16 | 8@1*2 4@0*1 | 4@0*4">
          scf.yield {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} %x_2, %y_2 : !hopper.frag<f16, "16x64: 2@1*1 4@0*4 | 32@1*2 | 4@0*1">, !hopper.frag<f16, "64x16: 2@1*1 4@0*16 | 8@1*2 4@0*1 | 4@0*4">
        } else {
          scf.yield {loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>} %x_1, %y_1 : !hopper.frag<f16, "16x64: 2@1*1 4@0*4 | 32@1*2 | 4@0*1">, !hopper.frag<f16, "64x16: 2@1*1 4@0*16 | 8@1*2 4@0*1 | 4@0*4">
        }{loc = #tawa.span<"timed_kernels.py", 50, 12, 50, 69>}
        %x_3 = hopper.smem at 0 {loc = #tawa.span<"timed_kernels.py", 52, 16, 52, 35>} : !hopper.ring<1, !hopper.tile<16x64xf16, swizzle 128, panel_rows 16>>
        %64 = arith.constant {loc = #tawa.span<"timed_kernels.py", 52, 16, 52, 35>} 0 : i32
        %65 = hopper.slot %x_3[%64] {loc = #tawa.span<"timed_kernels.py", 52, 16, 52, 35>} : !hopper.ring<1, !hopper.tile<16x64xf16, swizzle 128, panel_rows 16>> -> !hopper.tile<16x64xf16, swizzle 128, panel_rows 16>
        hopper.cta_sync {loc = #tawa.span<"timed_kernels.py", 52, 16, 52, 35>}
        hopper.shared_store %x_1, %65 {loc = #tawa.span<"timed_kernels.py", 52, 16, 52, 35>} : !hopper.frag<f16, "16x64: 2@1*1 4@0*4 | 32@1*2 | 4@0*1">, !hopper.tile<16x64xf16, swizzle 128, panel_rows 16>
        %y_3 = hopper.smem at 2048 {loc = #tawa.span<"timed_kernels.py", 52, 16, 52, 35>} : !hopper.ring<1, !hopper.tile<64x16xf16, swizzle 32, panel_rows 64>>
        %66 = hopper.slot %y_3[%64] {loc = #tawa.span<"timed_kernels.py", 52, 16, 52, 35>} : !hopper.ring<1, !hopper.tile<64x16xf16, swizzle 32, panel_rows 64>> -> !hopper.tile<64x16xf16, swizzle 32, panel_rows 64>
        hopper.shared_store %y_1, %66 {loc = #tawa.span<"timed_kernels.py", 52, 16, 52, 35>} : !hopper.frag<f16, "64x16: 2@1*1 4@0*16 | 8@1*2 4@0*1 | 4@0*4">, !hopper.tile<64x16xf16, swizzle 32, panel_rows 64>
        hopper.cta_sync {loc = #tawa.span<"timed_kernels.py", 52, 16, 52, 35>}
        %total_3 = "hopper.warp_product"(%total_2, %65, %66) <{inner = 64 : i64, precision = "tf32"}> {loc = #tawa.span<"timed_kernels.py", 52, 16, 52, 35>} : (!hopper.frag<f32, "16x16: 2@1*1 2@0*8 | 4@1*2 8@0*1 | 2@1*8 2*">, !hopper.tile<16x64xf16, swizzle 128, panel_rows 16>, !hopper.tile<64x16xf16, swizzle 32, panel_rows 64>) -> !hopper.frag<f32, "16x16: 2@1*1 2@0*8 | 4@1*2 8@0*1 | 2@1*8 2*">
        scf.yield {loc = #tawa.span<"timed_kernels.py", 49, 4, 52, 35>} %total_3, %38, %39 : !hopper.frag<f32, "16x16: 2@1*1 2@0*8 | 4@1*2 8@0*1 | 2@1*8 2*">, !hopper.frag<f16, "16x64: 2@1*1 4@0*4 | 32@1*2 | 4@0*1">, !hopper.frag<f16, "64x16: 2@1*1 4@0*16 | 8@1*2 4@0*1 | 4@0*4">
      } {loc = #tawa.span<"timed_kernels.py", 49, 4, 52, 35>}
      %67 = ew.map truncf(%total_1) {loc = #tawa.span<"timed_kernels.py", 53, 55, 53, 75>} : (!hopper.frag<f32, "16x16: 2@1*1 2@0*8 | 4@1*2 8@0*1 | 2@1*8 2*">) -> !hopper.frag<f16, "16x16: 2@1*1 2@0*8 | 4@1*2 8@0*1 | 2@1*8 2*">
      %scratch = hopper.smem at 4096 {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>} : !hopper.ring<1, !hopper.tile<16x16xf16, swizzle 0, panel_rows 16>>
      %68 = arith.constant {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>} 0 : i32
      %69 = hopper.slot %scratch[%68] {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>} : !hopper.ring<1, !hopper.tile<16x16xf16, swizzle 0, panel_rows 16>> -> !hopper.tile<16x16xf16, swizzle 0, panel_rows 16>
      hopper.shared_store %67, %69 {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>} : !hopper.frag<f16, "16x16: 2@1*1 2@0*8 | 4@1*2 8@0*1 | 2@1*8 2*">, !hopper.tile<16x16xf16, swizzle 0, panel_rows 16>
      hopper.cta_sync {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>}
      %70 = hopper.shared_load %69 {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>} : !hopper.tile<16x16xf16, swizzle 0, panel_rows 16> -> !hopper.frag<f16, "16x16: 2@0*8 | 16@1*1 2@0*1 | 4@0*2">
      %71 = hopper.fill %c {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>} : !tawa.ptr<f16> -> !hopper.frag<!tawa.ptr<f16>, "16x1: 2@0*8 | 16* 2@0*1 | 4@0*2">
      %rows_4 = hopper.coordinate 0 from 0 {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>} : !hopper.frag<i32, "16: 2@0*8 | 16* 2@0*1 | 4@0*2">
      %72 = "hopper.rearrange"(%rows_4) <{source = array<i64: 0, 1>}> {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>} : (!hopper.frag<i32, "16: 2@0*8 | 16* 2@0*1 | 4@0*2">) -> !hopper.frag<i32, "16x1: 2@0*8 | 16* 2@0*1 | 4@0*2">
      %73 = hopper.fill %3 {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>} : i32 -> !hopper.frag<i32, "16x1: 2@0*8 | 16* 2@0*1 | 4@0*2">
      %74 = ew.map muli(%72, %73) {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>} : (!hopper.frag<i32, "16x1: 2@0*8 | 16* 2@0*1 | 4@0*2">, !hopper.frag<i32, "16x1: 2@0*8 | 16* 2@0*1 | 4@0*2">) -> !hopper.frag<i32, "16x1: 2@0*8 | 16* 2@0*1 | 4@0*2">
      %75 = ew.map addptr(%71, %74) {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>} : (!hopper.frag<!tawa.ptr<f16>, "16x1: 2@0*8 | 16* 2@0*1 | 4@0*2">, !hopper.frag<i32, "16x1: 2@0*8 | 16* 2@0*1 | 4@0*2">) -> !hopper.frag<!tawa.ptr<f16>, "16x1: 2@0*8 | 16* 2@0*1 | 4@0*2">
      %76 = "hopper.rearrange"(%75) <{source = array<i64: 0, 1>}> {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>} : (!hopper.frag<!tawa.ptr<f16>, "16x1: 2@0*8 | 16* 2@0*1 | 4@0*2">) -> !hopper.frag<!tawa.ptr<f16>, "16x16: 2@0*8 | 16@1*1 2@0*1 | 4@0*2">
      %rows_5 = hopper.coordinate 0 from 0 {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>} : !hopper.frag<i32, "16:  | 16@0*1 2* | 4*">
      %77 = "hopper.rearrange"(%rows_5) <{source = array<i64: 0>}> {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>} : (!hopper.frag<i32, "16:  | 16@0*1 2* | 4*">) -> !hopper.frag<i32, "1x16:  | 16@1*1 2* | 4*">
      %78 = "hopper.rearrange"(%77) <{source = array<i64: 0, 0>}> {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>} : (!hopper.frag<i32, "1x16:  | 16@1*1 2* | 4*">) -> !hopper.frag<i32, "16x16: 2@0*8 | 16@1*1 2@0*1 | 4@0*2">
      %79 = ew.map addptr(%76, %78) {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>} : (!hopper.frag<!tawa.ptr<f16>, "16x16: 2@0*8 | 16@1*1 2@0*1 | 4@0*2">, !hopper.frag<i32, "16x16: 2@0*8 | 16@1*1 2@0*1 | 4@0*2">) -> !hopper.frag<!tawa.ptr<f16>, "16x16: 2@0*8 | 16@1*1 2@0*1 | 4@0*2">
      "hopper.global_store"(%79, %70) <{vector = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0>}> {loc = #tawa.span<"timed_kernels.py", 53, 4, 53, 76>} : (!hopper.frag<!tawa.ptr<f16>, "16x16: 2@0*8 | 16@1*1 2@0*1 | 4@0*2">, !hopper.frag<f16, "16x16: 2@0*8 | 16@1*1 2@0*1 | 4@0*2">) -> ()
    }) : () -> ()
    func.return
  }
}