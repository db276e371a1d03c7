/* SPDX-License-Identifier: Apache-2.0 */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "base/try.h"

#include <pthread.h>
#include <stdlib.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/util.h"

bool fl_try_any_missed;

#if defined(__x86_64__)

/* What fl_try() leaves on its stack. Its layout is that of the pushes below. */
struct frame {
    uint64_t len, b, a;
};

/* The frame of the thread's access that runs; the handler must find it without a call that allocates. */
__attribute__((tls_model("initial-exec"), visibility("hidden"),
               used)) _Thread_local struct frame *fl_try_frame;

extern char fl_try_again[] __attribute__((visibility("hidden")));

/*
 * bool fl_try(a, b, len, f): keeps what a function must keep, as f may have changed it when it faults, and
 * what the handler asks: the three arguments. After a fault it goes on at fl_try_again with this stack.
 */
__asm__(".pushsection .text\n"
        ".globl fl_try\n"
        ".hidden fl_try\n"
        ".hidden fl_try_again\n"
        ".type fl_try, @function\n"
        "fl_try:\n"
        ".cfi_startproc\n"
        "push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset %rbp, -16\n"
        "mov %rsp, %rbp\n.cfi_def_cfa_register %rbp\n"
        "push %rbx\n.cfi_offset %rbx, -24\n"
        "push %r12\n.cfi_offset %r12, -32\n"
        "push %r13\n.cfi_offset %r13, -40\n"
        "push %r14\n.cfi_offset %r14, -48\n"
        "push %r15\n.cfi_offset %r15, -56\n"
        "push %rdi\n"
        "push %rsi\n"
        "push %rdx\n" /* nine with the return address make ten: the stack is aligned */
        "mov fl_try_frame@gottpoff(%rip), %rbx\n"
        "mov %rsp, %fs:(%rbx)\n"
        "call *%rcx\n"
        "mov $1, %eax\n"
        "1:\n"
        "movq $0, %fs:(%rbx)\n"
        "add $24, %rsp\n"
        "pop %r15\n"
        "pop %r14\n"
        "pop %r13\n"
        "pop %r12\n"
        "pop %rbx\n"
        "pop %rbp\n.cfi_def_cfa %rsp, 8\n"
        "ret\n"
        ".globl fl_try_again\n"
        "fl_try_again:\n.cfi_def_cfa %rbp, 16\n"
        "cld\n"
        "lea 64(%rsp), %rbp\n"
        "mov fl_try_frame@gottpoff(%rip), %rbx\n"
        "xor %eax, %eax\n"
        "jmp 1b\n"
        ".cfi_endproc\n"
        ".size fl_try, .-fl_try\n"
        ".popsection\n");

/*
 * bool fl_try_short(dst, src, len), 17 to 64 bytes: all are read, then stored, the last byte by itself and
 * last. It has no stack, and what faults between its two labels goes on at fl_try_short_end.
 */
extern char fl_try_short_end[] __attribute__((visibility("hidden")));

__asm__(".pushsection .text\n"
        ".globl fl_try_short\n"
        ".hidden fl_try_short\n"
        ".hidden fl_try_short_end\n"
        ".type fl_try_short, @function\n"
        "fl_try_short:\n"
        ".cfi_startproc\n"
        "lea -1(%rdx), %rcx\n"
        "movdqu (%rsi), %xmm0\n"
        "cmp $32, %rcx\n"
        "jae 1f\n"
        "movdqu -16(%rsi,%rcx), %xmm1\n"
        "movzbl (%rsi,%rcx), %eax\n"
        "movdqu %xmm0, (%rdi)\n"
        "movdqu %xmm1, -16(%rdi,%rcx)\n"
        "movb %al, (%rdi,%rcx)\n"
        "mov $1, %eax\n"
        "ret\n"
        "1:\n"
        "movdqu 16(%rsi), %xmm1\n"
        "movdqu -32(%rsi,%rcx), %xmm2\n"
        "movdqu -16(%rsi,%rcx), %xmm3\n"
        "movzbl (%rsi,%rcx), %eax\n"
        "movdqu %xmm0, (%rdi)\n"
        "movdqu %xmm1, 16(%rdi)\n"
        "movdqu %xmm2, -32(%rdi,%rcx)\n"
        "movdqu %xmm3, -16(%rdi,%rcx)\n"
        "movb %al, (%rdi,%rcx)\n"
        "mov $1, %eax\n"
        "ret\n"
        ".globl fl_try_short_end\n"
        "fl_try_short_end:\n"
        "xor %eax, %eax\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size fl_try_short, .-fl_try_short\n"
        ".popsection\n");

/* More than these at once are not kept: the access that misses there again is. 0: free */
static uintptr_t missed[FL_TRY_MISSED_MAX];
/* Whose the other faults are. One that was replaced stays for a while: a handler may be about to call it. */
#define KEPT 8
struct others {
    struct sigaction at[KEPT];
    uint32_t now;
};
static struct others others[2]; /* of SIGSEGV, SIGBUS */

static struct others *others_of(int sig)
{
    return &others[sig == SIGBUS];
}

static void note(uintptr_t at)
{
    for (size_t i = 0; i < FL_ARRAY_LEN(missed); i++) {
        uintptr_t none = 0;
        if (__atomic_compare_exchange_n(&missed[i], &none, at, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED) ||
            none == at)
            break;
    }
    __atomic_store_n(&fl_try_any_missed, true, __ATOMIC_RELEASE);
}

static void as_usual(int sig, const siginfo_t *info)
{
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    sigaction(sig, &usual, NULL);
    if (info->si_code <= 0)
        raise(sig); /* else the instruction faults once more */
}

/* A fault that is none of ours, or a signal that somebody has sent */
static void pass_on(int sig, siginfo_t *info, void *context)
{
    const struct others *o = others_of(sig);
    const struct sigaction *to = &o->at[__atomic_load_n(&o->now, __ATOMIC_ACQUIRE) % KEPT];
    if (to->sa_flags & SA_SIGINFO)
        to->sa_sigaction(sig, info, context);
    else if (to->sa_handler != SIG_DFL && to->sa_handler != SIG_IGN)
        to->sa_handler(sig);
    else if (to->sa_handler == SIG_DFL || info->si_code > 0)
        as_usual(sig, info);
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
    /* The handler that it was passed on to may pass it on to whom it found: to us. That is the same context,
     * seen from further down the stack. */
    static __attribute__((tls_model("initial-exec"))) _Thread_local struct {
        const void *context;
        uintptr_t frame;
    } passed;
    const struct frame *f = fl_try_frame;
    uintptr_t at = (uintptr_t)info->si_addr, here = (uintptr_t)__builtin_frame_address(0);
    greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
    uintptr_t pc = (uintptr_t)regs[REG_RIP];
    if (info->si_code > 0 &&
        pc - (uintptr_t)fl_try_short < (uintptr_t)fl_try_short_end - (uintptr_t)fl_try_short) {
        note(at);
        regs[REG_RIP] = (greg_t)(uintptr_t)fl_try_short_end;
    } else if (f && info->si_code > 0 && (at - f->a < f->len || at - f->b < f->len)) {
        note(at);
        regs[REG_RSP] = (greg_t)(uintptr_t)f;
        regs[REG_RIP] = (greg_t)(uintptr_t)fl_try_again;
    } else if (passed.context == context && here < passed.frame) {
        as_usual(sig, info);
    } else {
        passed.context = context;
        passed.frame = here;
        pass_on(sig, info, context);
        passed.context = NULL; /* it may not come back, if it jumps */
    }
}

static void install(int sig)
{
    struct others *o = others_of(sig);
    struct sigaction now, ours = {.sa_sigaction = on_fault};
    uint32_t next = o->now + 1;
    if (sigaction(sig, NULL, &now) || ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_fault))
        return;
    o->at[next % KEPT] = now;
    __atomic_store_n(&o->now, next, __ATOMIC_RELEASE);
    ours.sa_mask = now.sa_mask;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | (now.sa_flags & (SA_RESTART | SA_NODEFER));
    sigaction(sig, &ours, NULL);
}

void fl_try_init(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static enum { UNKNOWN, ON, OFF } wanted;
    pthread_mutex_lock(&lock);
    if (wanted == UNKNOWN) {
        const char *value = getenv("FARLANE_SIGSEGV");
        wanted = value && !strcmp(value, "0") ? OFF : ON;
    }
    if (wanted == ON) {
        install(SIGSEGV);
        install(SIGBUS);
    }
    pthread_mutex_unlock(&lock);
}

int fl_try_missed(uintptr_t *at, int max)
{
    int nr = 0;
    if (!__atomic_exchange_n(&fl_try_any_missed, false, __ATOMIC_ACQUIRE))
        return 0;
    for (size_t i = 0; i < FL_ARRAY_LEN(missed) && nr < max; i++) {
        at[nr] = __atomic_exchange_n(&missed[i], 0, __ATOMIC_RELAXED);
        nr += at[nr] != 0;
    }
    return nr;
}

#else

void fl_try_init(void)
{
}

bool fl_try_short(void *dst, const void *src, size_t len)
{
    memmove(dst, src, len - 1);
    __atomic_store_n((uint8_t *)dst + len - 1, ((const uint8_t *)src)[len - 1], __ATOMIC_RELEASE);
    return true;
}

bool fl_try(void *a, const void *b, size_t len, fl_try_function *f)
{
    f(a, b, len);
    return true;
}

int fl_try_missed(uintptr_t *at, int max)
{
    (void)at;
    (void)max;
    return 0;
}

#endif
