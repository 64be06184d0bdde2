#!/usr/bin/env bash
# Proves that faults in the loops of kernels are found by the commands that CI runs: in a copy of the
# kernels a loop is emptied, a load is moved out of it, a wait is put before its use, a fence of the
# whole GPU is put into it, each in another kernel of NVIDIA's and of AMD's, and a known fault is mended
# without a word. Conflicts of banks are planted in two more by tests/kernel_arithmetic.rs, which counts
# them. Needs what scripts/kernels.sh and kernels_amd.sh need, and with --plant-only nothing: it then
# proves in a second that each fault still changes the text that it is for.
set -euo pipefail
plant_only=${1:-}
cd "$(dirname "$0")/.."

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cp -r scripts kernels "$place"
cd "$place"
export FIZEAU_CHECK_CACHE=$place/cache

nvidia() { bash scripts/kernels.sh --by "NVRTC 13" "$@"; }
amd() { bash scripts/kernels_amd.sh "$@"; }
found() { # FILE SED_SCRIPT WORDS VENDOR KERNELS TARGET: what is said of it once FILE is changed
    local status=0
    cp "$1" kept
    sed -i "$2" "$1"
    ! cmp -s "$1" kept || { echo "fault: nothing was planted in $1 by $2" >&2; exit 1; }
    if [[ $plant_only == --plant-only ]]; then
        cp kept "$1"
        return
    fi
    "$4" --only "$5" --target "$6" >said 2>&1 || status=$?
    cp kept "$1"
    if ((status != 1)) || ! grep -q -- "^fault: .*$3" said; then
        cat said >&2
        echo "fault: exit code $status and no '$3' for a fault planted in $1" >&2
        exit 1
    fi
    echo "$4 $5 $6: $3"
}
include=kernels/include

# A loop whose body runs once, after it.
empty='s/for (u64 step = 0; step < steps; step++) {/for (u64 step = 0; step < steps; step++) {} {/'
found $include/count_mma.h "$empty" "compute_fp8_mma: 'loop 2: .*': no loop" \
    nvidia compute/sm89_mma.cu sm_89
found $include/lane_count.h "$empty" "compute_bf16_rdna3: 'loop 2: .*': no loop" \
    amd compute/rdna3_wmma.hip gfx1100
# Loads that the assembler, or the compiler, takes out.
found $include/gpu_nvidia.h 's/ld\.volatile\.shared/ld.shared/' \
    "access_shared: .*: 0 LDS.128 in a loop" nvidia access/portable.cu sm_80
found $include/gpu_amd.h '/^DEVICE Vector<u64> load_from_shared/,/^}/s/asm volatile.*//' \
    "access_shared: .*ds_(read|load)_b128" amd access/portable.cu gfx942
# Which tile comes next, found out by divisions in every stage.
found $include/line_product.h 's/if (next_step == 0) lines.aim/lines.aim/' \
    "gemm_fp8_mma: .*: MUFU.RCP .* on the usual way" nvidia gemm/sm89_mma.cu sm_89
# Copies that are waited for before what is under way is used.
found kernels/gemm/sm80_mma_skinny.cu 's/await_copies<L::STAGES - 2>/await_copies<0>/' \
    "gemm_bf16_mma_skinny: .*: DEPBAR.LE SB0, 0x0" nvidia gemm/sm80_mma_skinny.cu sm_80
found $include/lane_product.h \
    's/next.fetch(p, tile, which.at(step + 1 + S::AHEAD));/&\n    __builtin_amdgcn_s_waitcnt(0);/' \
    "gemm_mxfp8_cdna4: .*: s_waitcnt vmcnt(0)" amd gemm/cdna4_mfma_scaled.hip gfx950
# Sums of a tile that are counted before other blocks see them, and parts of it that are read one by one.
found $include/stream_k.h '/to\[i \* THREADS\] = sum(i)/,/meet()/s/device_fence();//' \
    "gemm_bf16_cdna3_stream_k: .*buffer_wbl2" amd gemm/cdna3_mfma_stream_k.hip gfx942
found $include/lane_stream_k.h 's/got\[i\] = load_fresh(.*);/{ & __builtin_amdgcn_s_waitcnt(0xf70); }/' \
    "gemm_bf16_cdna2_stream_k: .*global_load_dword" amd gemm/cdna2_mfma_stream_k.hip gfx90a
# A barrier that waits for loads of global memory as well.
found $include/lanes.h '/^DEVICE void shared_barrier/,/^}/s/, "local"//' \
    "gemm_bf16_rdna4: .*: s_wait_loadcnt" amd gemm/rdna4_wmma.hip gfx1201
found $include/lane_product.h \
    's/next.fetch(p, tile, which.at(step + 1 + S::AHEAD));/&\n    asm volatile("s_wait_loadcnt 0x0");/' \
    "gemm_fp8_cdna5: .*: s_wait_loadcnt" amd gemm/cdna5_wmma.hip gfx1250
# Words of a load that go their own ways: the compiler moves them, and waits, before they are needed.
found $include/lanes.h 's/^\( *\)to = __builtin_bit_cast(LoadedWords<2>/\1__builtin_amdgcn_s_waitcnt(0xf70);\n&/' \
    "gemm_bf16_cdna3: .*: s_waitcnt vmcnt(0)" amd gemm/cdna3_mfma.hip gfx942
found $include/lane_skinny.h 's/kept\[i\].multiply(sums);/__builtin_amdgcn_s_waitcnt(0xf70); &/' \
    "gemm_fp8_cdna4_skinny: .*: s_waitcnt vmcnt(0)" amd gemm/cdna4_mfma_skinny.hip gfx950
# A copy whose place in shared memory the compiler has in a vector register, which no assembler takes.
found $include/lane_direct.h 's/of_wave(wave_index()) \* LANES/wave_index() * LANES/' \
    "the assembler says" amd gemm/cdna4_mfma_direct.hip gfx950
# A look-up on one of two ways, and the loads that come before it.
found $include/lane_softmax.h 's/^\( *\)get_words(page\[i\], table/\1if (table.bytes != 0) get_words(page[i], table/' \
    "attention_mla_bf16_cdna4: " amd attention/cdna4_mfma.hip gfx950
found $include/attention_lanes_latent.h 's/^\( *\)made.attend/\1__builtin_amdgcn_s_waitcnt(0xf70); &/; s/if (wave_index() \* 16 < rows) made/__builtin_amdgcn_s_waitcnt(0xf70);\n        &/' \
    "attention_mla_bf16_cdna4: .*: s_waitcnt vmcnt(0)" amd attention/cdna4_mfma.hip gfx950
# The wait for the second product, which the assembler moves before all exponentials.
found kernels/attention/sm90_wgmma.cu 's/if (always) weigh_scores/weigh_scores/' \
    "attention_prefill_bf16_128_wgmma: .*: 0 MUFU.EX2 before the last WARPGROUP.DEPBAR" \
    nvidia attention/sm90_wgmma.cu sm_90a
# A fence that all of the GPU waits for.
found kernels/gemm/sm120_mma.cu 's/^\( *\)await_copies<.*/&\n  device_fence();/' \
    "gemm_mxfp8_mma: .*: MEMBAR.SC.GPU" nvidia gemm/sm120_mma.cu sm_120a
found $include/attention_lanes.h 's/^\( *\)score(room);/\1device_fence(); score(room);/' \
    "attention_prefill_bf16_64_cdna2: .*: buffer_" amd attention/cdna2_mfma.hip gfx942
found $include/sm90.h 's/mbarrier.arrive.shared::cluster/mbarrier.arrive.release.cluster.shared::cluster/' \
    "gemm_bf16_wgmma: .*: MEMBAR.ALL.GPU" nvidia gemm/sm90_wgmma.cu sm_90a
# A thread that is chosen by its number: a loop around each multiplication.
found $include/sm100_product.h 's/warp == 1 && .*elected()/thread_index() == 32/' \
    "gemm_bf16_tcgen05: .*: ELECT" nvidia gemm/sm100_tcgen05.cu sm_100a
found kernels/attention/sm100_tcgen05_latent.cu \
    's/cluster_place() == 0 && elected()) multiply_all/cluster_place() == 0 \&\& thread_index() == 256) multiply_all/' \
    "attention_mla_bf16_tcgen05: .*: ELECT" nvidia attention/sm100_tcgen05_latent.cu sm_100a
# Descriptors that are made anew for each multiplication, and one lane in place of an elected one.
anew='shared_address(shared) + ring.at * Shape::BYTES'
found kernels/gemm/sm90_wgmma_few.cu \
    "s/further(of_b, part/Type<In>::describe_b($anew + consumer * PART_BYTES + part/; s/further(of_a, part/describe_k_major($anew + BYTES_B + part/" \
    "gemm_bf16_wgmma_few: .*: [0-9]* instructions make HGMMA" nvidia gemm/sm90_wgmma_few.cu sm_90a
found kernels/gemm/sm90_wgmma_few.cu 's/warp_number() != 0 || !elected()/thread_index() != 0/' \
    "gemm_bf16_wgmma_few: .*: ELECT" nvidia gemm/sm90_wgmma_few.cu sm_90a
# Operands that the assembler makes after the wait for a turn.
found kernels/gemm/sm90_wgmma_turned.cu 's/if (always) Type/Type/' \
    "gemm_int8_wgmma: .*: PRMT" nvidia gemm/sm90_wgmma_turned.cu sm_90a
# The same of the loop over stages of half tiles alone: each loop is to be without.
found $include/sm100_unscaled.h 's/^\( *\)arrive_when_multiplied<BLOCKS>(&ring/\1if constexpr (WIDTH == COLUMNS \/ 2) device_fence();\n&/' \
    "gemm_bf16_tcgen05: .*: MEMBAR" nvidia gemm/sm100_tcgen05.cu sm_100a
# A fence of the device's memory in every stage.
found $include/sm100_few.h 's/^\( *\)arrive_when_multiplied<1>(&ring/\1device_fence(); &/' \
    "gemm_bf16_tcgen05_few: .*: MEMBAR" nvidia gemm/sm100_tcgen05_few.cu sm_100a
# A claim that is said to fail, and holds.
found kernels/proofs.toml 's/\(entries = \["gemm_int8_wgmma"\].*\) },/\1, fails = "it is said" },/' \
    "gemm_int8_wgmma: .* holds now" nvidia gemm/sm90_wgmma_turned.cu sm_90a
