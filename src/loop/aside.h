/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that blocks, beside the loop: fsync of a small file, a look at a file system. Each piece has a thread
 * of its own for as long as it takes, so this is for what is rare.
 */
#ifndef FL_LOOP_ASIDE_H
#define FL_LOOP_ASIDE_H

#include "loop/loop.h"

/* The caller's, in place until done() runs. */
struct fl_aside {
    void (*work)(struct fl_aside *aside); /* on another thread; touches nothing of the loop's */
    void (*done)(struct fl_aside *aside); /* on the loop again, after work() */
    struct fl_loop *loop;                 /* private from here */
    struct fl_msg msg;
};

/* On the loop's thread. done() never runs inside this call. When no thread can be made, the work is done
 * here: late is better than never. */
void fl_aside_start(struct fl_loop *loop, struct fl_aside *aside);

#endif
