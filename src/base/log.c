/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/utf8.h"

static const struct {
    const char *name, *colour;
} levels[] = {
    [FL_LOG_ERR] = {"error", "\033[31m"},
    [FL_LOG_WARN] = {"warn", "\033[33m"},
    [FL_LOG_INFO] = {"info", ""},
    [FL_LOG_DEBUG] = {"debug", "\033[2m"},
};

#define LEVEL_UNSET (-1)

static int level_now = LEVEL_UNSET; /* read and written with relaxed atomics */

static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER; /* sink and sink_arg, as a pair */
static fl_log_sink *sink;
static void *sink_arg;

int fl_log_parse_level(const char *name, enum fl_log_level *level, struct fl_error *err)
{
    for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        if (!strcmp(name, levels[i].name)) {
            *level = (enum fl_log_level)i;
            return 0;
        }
    }
    return fl_error_set(err, -EINVAL, "log level \"%.40s\" is unknown: use error, warn, info or debug", name);
}

static int level_from_environment(void)
{
    const char *name = getenv("FARLANE_LOG");
    enum fl_log_level level = FL_LOG_WARN;
    struct fl_error err = {0};

    if (name && *name && fl_log_parse_level(name, &level, &err) < 0)
        fprintf(stderr, "FARLANE_LOG: %s\n", err.text);
    return level;
}

bool fl_log_enabled(enum fl_log_level level)
{
    int now = __atomic_load_n(&level_now, __ATOMIC_RELAXED);

    if (now == LEVEL_UNSET) {
        /* Two threads may both get here first: the value is the same. */
        now = level_from_environment();
        __atomic_store_n(&level_now, now, __ATOMIC_RELAXED);
    }
    return (int)level <= now;
}

void fl_log_set_level(enum fl_log_level level)
{
    __atomic_store_n(&level_now, (int)level, __ATOMIC_RELAXED);
}

void fl_log_set_sink(fl_log_sink *new_sink, void *arg)
{
    pthread_mutex_lock(&sink_lock);
    sink = new_sink;
    sink_arg = arg;
    pthread_mutex_unlock(&sink_lock);
}

/* One write a line, so that lines of several threads and processes do not mix. */
static void write_line(enum fl_log_level level, const char *text)
{
    bool terminal = isatty(STDERR_FILENO);
    char line[1200], when[40];
    struct timespec ts;
    struct tm tm;
    int n;

    clock_gettime(CLOCK_REALTIME, &ts);
    localtime_r(&ts.tv_sec, &tm);
    strftime(when, sizeof(when), terminal ? "%H:%M:%S" : "%Y-%m-%dT%H:%M:%S", &tm);
    n = snprintf(line, sizeof(line), "%s%s.%03ld %-5s %s%s\n", terminal ? levels[level].colour : "", when,
                 ts.tv_nsec / 1000000, levels[level].name, text, terminal ? "\033[0m" : "");
    if (n >= (int)sizeof(line)) {
        n = sizeof(line) - 1;
        line[n - 1] = '\n';
    }
    if (write(STDERR_FILENO, line, (size_t)n) < 0) {
        /* Nobody is left to be told. */
    }
}

void fl_log(enum fl_log_level level, const char *fmt, ...)
{
    int saved = errno;
    char text[1024];
    fl_log_sink *to;
    va_list args;
    void *arg;

    va_start(args, fmt);
    errno = saved; /* for %m */
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);

    fl_utf8_make_harmless(text); /* a name in it may have come from a peer */

    pthread_mutex_lock(&sink_lock);
    to = sink;
    arg = sink_arg;
    pthread_mutex_unlock(&sink_lock);
    if (to)
        to(arg, level, text);
    else
        write_line(level, text);
    errno = saved;
}

bool fl_log_rate_allow(struct fl_log_rate *rate, uint32_t per_s, uint64_t now_ns, uint32_t *held)
{
    if (now_ns - rate->window_ns >= FL_NS_PER_S) {
        rate->window_ns = now_ns;
        rate->used = 0;
    }
    if (rate->used >= per_s) {
        rate->held++;
        return false;
    }
    rate->used++;
    if (held)
        *held = rate->held;
    rate->held = 0;
    return true;
}
