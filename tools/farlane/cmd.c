/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"
#include "base/utf8.h"
#include "base/util.h"
#include "term.h"

void cmd_complain(const char *fmt, ...)
{
    char text[2048]; /* larger than what an fl_error holds */
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    fflush(stdout);
    /* it may quote what a peer said */
    fprintf(stderr, "%sfarlane:%s %s\n", term_on(stderr, TERM_RED), term_off(stderr),
            fl_utf8_make_harmless(text));
}

int cmd_usage(const struct cmd *cmd, const char *fmt, ...)
{
    va_list args;

    fflush(stdout);
    fprintf(stderr, "%sfarlane %s:%s ", term_on(stderr, TERM_RED), cmd->name, term_off(stderr));
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fprintf(stderr, " (see: farlane %s --help)\n", cmd->name);
    return EXIT_USAGE;
}

int cmd_exit_status(int code)
{
    switch (-code) {
    case 0:
        return EXIT_OK;
    case ECONNREFUSED:
    case ECONNRESET:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EHOSTDOWN:
    case ENETDOWN:
    case ETIMEDOUT:
    case EADDRNOTAVAIL:
    case ENOTCONN:
        return EXIT_UNREACHABLE;
    case EACCES:
    case EPERM:
        return EXIT_DENIED;
    case ENOENT:
    case ENODEV:
    case ENXIO:
        return EXIT_NOT_FOUND;
    case EILSEQ:
        return EXIT_DIFFERENT;
    case EPFNOSUPPORT:
        return EXIT_LESSER_PATH;
    case EINVAL:
    case ERANGE:
    case EPROTONOSUPPORT:
        return EXIT_USAGE;
    default:
        return EXIT_FAILED;
    }
}

int cmd_fail(const struct fl_error *err, int code)
{
    cmd_complain("%s", err && err->text[0] ? err->text : strerror(-code));
    return cmd_exit_status(code);
}

/* A pipe or socket whose other end is gone */
static bool nobody_reads(int fd)
{
    struct pollfd p = {.fd = fd};

    return poll(&p, 1, 0) > 0 && (p.revents & POLLERR);
}

int cmd_finish(int status)
{
    const bool lost = ferror(stdout) != 0; /* errno is long gone then */
    const int code = fflush(stdout) != 0 ? errno : 0;

    if (!code && !lost)
        return status;
    /* Whoever reads has read enough (head -1): nothing to say. */
    if (code != EPIPE && !(lost && nobody_reads(STDOUT_FILENO)))
        cmd_complain("cannot write to standard output: %s", code ? strerror(code) : "some of it was lost");
    return status == EXIT_OK ? EXIT_FAILED : status;
}

/* ---- options ---- */

void cmd_args_init(struct cmd_args *args, const struct cmd *cmd, int argc, char **argv)
{
    *args = (struct cmd_args){.cmd = cmd, .argc = argc, .at = 1, .argv = argv};
}

static const struct cmd_option *find_long(const struct cmd *cmd, const char *name, size_t len)
{
    const struct cmd_option *o;

    for (o = cmd->options; o->id; o++)
        if (strlen(o->name) == len && !memcmp(o->name, name, len))
            return o;
    return NULL;
}

static int complain_unknown(const struct cmd_args *args, const char *typed)
{
    const char *names[64], *near;
    const struct cmd_option *o;
    size_t n = 0;

    for (o = args->cmd->options; o->id && n + 2 < FL_ARRAY_LEN(names); o++)
        names[n++] = o->name;
    names[n++] = "help";
    names[n] = NULL;
    near = cmd_nearest(typed, names);
    if (near)
        cmd_usage(args->cmd, "there is no option --%s; did you mean --%s?", typed, near);
    else
        cmd_usage(args->cmd, "there is no option --%s", typed);
    return CMD_BAD;
}

static int take_argument(struct cmd_args *args, const struct cmd_option *o, const char *attached)
{
    args->name = o->name;
    args->arg = attached;
    if (!o->arg) {
        if (attached) {
            cmd_usage(args->cmd, "--%s takes no value, but '%s' was given", o->name, attached);
            return CMD_BAD;
        }
        return o->id;
    }
    if (!attached) {
        if (args->at >= args->argc) {
            cmd_usage(args->cmd, "--%s needs a value: --%s %s", o->name, o->name, o->arg);
            return CMD_BAD;
        }
        args->arg = args->argv[args->at++];
    }
    return o->id;
}

static int next_long(struct cmd_args *args, const char *text)
{
    const char *eq = strchr(text, '=');
    size_t len = eq ? (size_t)(eq - text) : strlen(text);
    const struct cmd_option *o = find_long(args->cmd, text, len);
    char typed[64];

    if (o)
        return take_argument(args, o, eq ? eq + 1 : NULL);
    if (len == 4 && !memcmp(text, "help", 4)) {
        cmd_help(args->cmd);
        return CMD_HELP;
    }
    snprintf(typed, sizeof(typed), "%.*s", (int)FL_MIN(len, sizeof(typed) - 1), text);
    return complain_unknown(args, typed);
}

static int next_short(struct cmd_args *args)
{
    const char letter = *args->rest++;
    const struct cmd_option *o;

    for (o = args->cmd->options; o->id; o++) {
        const char *attached = NULL;

        if (o->id != letter)
            continue;
        if (o->arg && *args->rest)
            attached = args->rest;
        if (o->arg)
            args->rest = NULL;
        return take_argument(args, o, attached);
    }
    if (letter == 'h') {
        cmd_help(args->cmd);
        return CMD_HELP;
    }
    cmd_usage(args->cmd, "there is no option -%c", letter);
    return CMD_BAD;
}

int cmd_args_next(struct cmd_args *args)
{
    const char *text;

    if (args->rest && *args->rest)
        return next_short(args);
    args->rest = NULL;
    if (args->at >= args->argc)
        return CMD_DONE;
    text = args->argv[args->at++];
    if (!args->ended && !strcmp(text, "--")) {
        args->ended = true;
        return cmd_args_next(args);
    }
    if (args->ended || text[0] != '-' || !text[1]) {
        args->arg = text;
        args->name = NULL;
        return CMD_OPERAND;
    }
    if (text[1] == '-')
        return next_long(args, text + 2);
    args->rest = text + 1;
    return next_short(args);
}

bool cmd_args_number(const struct cmd_args *args, uint64_t min, uint64_t max, uint64_t *value)
{
    struct fl_error err = {0};
    char what[64];

    snprintf(what, sizeof(what), "--%s", args->name);
    if (fl_number_parse(args->arg, min, max, what, value, &err) == 0)
        return true;
    cmd_usage(args->cmd, "%s", err.text);
    return false;
}

bool cmd_args_size(const struct cmd_args *args, uint64_t *value)
{
    struct fl_error err = {0};

    if (fl_size_parse(args->arg, value, &err) == 0)
        return true;
    cmd_usage(args->cmd, "--%s: %s", args->name, err.text);
    return false;
}

/* ---- help ---- */

/* Prints text from column `indent` on, wrapped at the width of the terminal. */
static void print_wrapped(const char *text, int indent)
{
    int width = FL_MIN(term_width(stdout), 110), at = indent;
    const char *gap = "";

    while (*text) {
        int len = (int)strcspn(text, " ");

        if (at + (int)strlen(gap) + len > width && at > indent) {
            printf("\n%*s", indent, "");
            at = indent;
            gap = "";
        }
        at += printf("%s%.*s", gap, len, text);
        gap = " ";
        text += len + (text[len] == ' ');
    }
    putchar('\n');
}

void cmd_help(const struct cmd *cmd)
{
    const struct cmd_option *o;
    int widest = 0;

    printf("%sfarlane %s%s: %s\n\n", term_on(stdout, TERM_BOLD), cmd->name, term_off(stdout), cmd->summary);
    printf("Usage: farlane %s\n", cmd->usage);
    for (o = cmd->options; o->id; o++)
        widest = FL_MAX(widest, (int)(strlen(o->name) + (o->arg ? strlen(o->arg) + 1 : 0)));
    if (cmd->options->id)
        printf("\nOptions:\n");
    for (o = cmd->options; o->id; o++) {
        char left[96];

        snprintf(left, sizeof(left), "--%s%s%s", o->name, o->arg ? " " : "", o->arg ? o->arg : "");
        if (o->id < 128)
            printf("  -%c, %-*s  ", o->id, widest + 2, left);
        else
            printf("      %-*s  ", widest + 2, left);
        print_wrapped(o->help, widest + 10);
    }
    if (cmd->details)
        printf("\n%s", cmd->details);
}

/* ---- "did you mean" ---- */

static unsigned distance(const char *a, const char *b)
{
    unsigned row[48], i, j, n = (unsigned)strlen(b);

    if (n >= FL_ARRAY_LEN(row) || strlen(a) >= FL_ARRAY_LEN(row))
        return UINT32_MAX;
    for (j = 0; j <= n; j++)
        row[j] = j;
    for (i = 1; a[i - 1]; i++) {
        unsigned diagonal = row[0];

        row[0] = i;
        for (j = 1; j <= n; j++) {
            unsigned up = row[j], gap = FL_MIN(up, row[j - 1]) + 1;

            row[j] = FL_MIN(gap, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = up;
        }
    }
    return row[n];
}

const char *cmd_nearest(const char *typed, const char *const *names)
{
    const char *best = NULL;
    unsigned best_distance = FL_MIN((unsigned)strlen(typed) / 2, 3u) +
                             1; /* most that is still near, plus 1 */

    for (; *names; names++) {
        unsigned d = distance(typed, *names);

        if (strlen(typed) >= 3 && !strncmp(typed, *names, strlen(typed)))
            d = FL_MIN(d, 1u);
        if (d < best_distance) {
            best = *names;
            best_distance = d;
        }
    }
    return best;
}
