/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FL_BASE_VECTORS_H
#define FL_BASE_VECTORS_H

/*
 * After a function that uses wide vectors. ISA-L's for AVX-512 return with the upper parts of the registers
 * in use, and compilers clear them behind ours, but not with every option. On Intel's CPUs each change
 * between VEX and legacy SSE instructions then costs some 170 ns, in this whole thread and until somebody
 * clears them.
 */
static inline void fl_vectors_leave(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx"))
        __asm__ volatile("vzeroupper" ::
                             : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                               "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
#endif
}

#endif
