/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages for the operator, on standard error. Not for results (those go to standard output), and not for
 * the data path: a peer's fault is counted each time and logged through a rate limit.
 *
 * The level comes from the environment (FARLANE_LOG=error|warn|info|debug) or from fl_log_set_level; warn by
 * default. All functions may be called from any thread.
 */
#ifndef FL_BASE_LOG_H
#define FL_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include <farlane/api.h>
#include <farlane/error.h>

enum fl_log_level { FL_LOG_ERR, FL_LOG_WARN, FL_LOG_INFO, FL_LOG_DEBUG };

void fl_log(enum fl_log_level level, const char *fmt, ...) FL_PRINTF(2, 3);

/* Arguments are evaluated only when the level is on. */
#define FL_LOG_AT_(level, ...)          \
    do {                                \
        if (fl_log_enabled(level))      \
            fl_log(level, __VA_ARGS__); \
    } while (0)

#define FL_ERR(...)   FL_LOG_AT_(FL_LOG_ERR, __VA_ARGS__)
#define FL_WARN(...)  FL_LOG_AT_(FL_LOG_WARN, __VA_ARGS__)
#define FL_INFO(...)  FL_LOG_AT_(FL_LOG_INFO, __VA_ARGS__)
#define FL_DEBUG(...) FL_LOG_AT_(FL_LOG_DEBUG, __VA_ARGS__)

bool fl_log_enabled(enum fl_log_level level);
void fl_log_set_level(enum fl_log_level level);
int fl_log_parse_level(const char *name, enum fl_log_level *level, struct fl_error *err);

/* Where messages go instead of standard error, one call a message, text without a newline; NULL: back again.
 */
typedef void fl_log_sink(void *arg, enum fl_log_level level, const char *text);
void fl_log_set_sink(fl_log_sink *sink, void *arg);

/*
 * A rate limit: at most `per_s` in each second, all zero to begin with. One object a kind of message (and a
 * peer); it belongs to one thread.
 */
struct fl_log_rate {
    uint64_t window_ns; /* when the current second began */
    uint32_t used;      /* let through in it */
    uint32_t held;      /* held back since the last one let through */
};

/* True if a message may go out now. *held gets the number held back before it (may be NULL). */
bool fl_log_rate_allow(struct fl_log_rate *rate, uint32_t per_s, uint64_t now_ns, uint32_t *held);

/* Logs the first time that this line is reached in the process, in whichever thread. */
#define FL_LOG_ONCE(level, ...)                                                            \
    do {                                                                                   \
        static bool done_;                                                                 \
        if (fl_log_enabled(level) && !__atomic_exchange_n(&done_, true, __ATOMIC_RELAXED)) \
            fl_log(level, __VA_ARGS__);                                                    \
    } while (0)

#endif
