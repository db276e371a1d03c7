/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the file back end share: a directory, files in it, and I/O on a channel without a loop.
 */
#ifndef FL_BACKEND_FILE_BED_H
#define FL_BACKEND_FILE_BED_H

#include "backend/file.h"
#include "base/unit.h"

#define BED_LEN (UINT64_C(1) << 20)

extern char bed_dir[64];

struct bed {
    struct fl_backend *backend;
    struct fl_chan *chan;
    uint8_t *buf, *buf2; /* BED_LEN bytes each, page aligned */
};

struct job {
    struct fl_bio bio;
    struct iovec iov;
    bool done;
    int result;
};

/* Makes the directory, runs the tests, removes it. */
#define BED_RUN(...) (bed_make_dir() ? 1 : bed_remove_dir(FL_UNIT_RUN(__VA_ARGS__)))
int bed_make_dir(void);
int bed_remove_dir(int rc); /* returns rc */

int open_spec(struct fl_backend **backend, struct fl_error *err, const char *fmt, ...) FL_PRINTF(3, 4);
void must_open(struct fl_backend **backend, const char *spec); /* "NAME,OPTIONS": a file in the directory */
void expect_refusal(int code, const char *text, const char *spec);
void make_file(const char *name, uint64_t len);

void bed_setup(struct bed *bed, const char *spec,
               const struct fl_file_engine *engine); /* NULL: the file's own */
/* Tells what this machine does not allow: no failure, and no skip, which CI takes for one. */
void bed_not_tested(const char *what, const char *why);
void bed_open_chan(struct bed *bed);
void bed_teardown(struct bed *bed);

void start(struct bed *bed, struct job *job, enum fl_bio_op op, uint32_t flags, void *buf, uint64_t off,
           uint64_t len);
int run(struct bed *bed, enum fl_bio_op op, uint32_t flags, void *buf, uint64_t off, uint64_t len);
void fill(uint8_t *buf, uint64_t len, unsigned seed);

#endif
