/* SPDX-License-Identifier: Apache-2.0 */
/* What each command of `farlane` is made of: a name, a table of options (help text and parser come from it),
 * a function. */
#ifndef FARLANE_CMD_H
#define FARLANE_CMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <farlane/error.h>

/* What scripts can tell apart; documented in farlane(1). */
enum {
    EXIT_OK = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,       /* also: a value that is not possible, in an option, a URL or a configuration */
    EXIT_UNREACHABLE = 3, /* nobody there: refused, no route, no answer, no such host name */
    EXIT_DENIED = 4,      /* there, but not for this user or host */
    EXIT_NOT_FOUND = 5,   /* no such subsystem, namespace, file */
    EXIT_DIFFERENT = 6,   /* --verify found other data than were written */
    EXIT_LESSER_PATH = 7, /* the path that --require asks for cannot be had */
    EXIT_SIGNALLED = 128, /* plus the number of the signal that interrupted it */
};

struct cmd_option {
    int id; /* positive; a printable character is the short form as well */
    const char *name;
    const char *arg; /* name of the argument in the help; NULL: a switch */
    const char *help;
};

/* Ends a table of options; --help is understood by every command. */
#define CMD_OPTION_END \
    {                  \
        0              \
    }

struct cmd {
    const char *name;
    const char *summary; /* one line of `farlane help` */
    const char *usage;   /* after "farlane " */
    const char *details; /* after the options: rules and examples */
    const struct cmd_option *options;
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; returns an exit status */
};

extern const struct cmd cmd_serve, cmd_ctl, cmd_discover, cmd_info, cmd_read, cmd_write, cmd_copy, cmd_bench,
    cmd_tax, cmd_advise, cmd_explain, cmd_sim, cmd_rnic, cmd_run, cmd_doctor;

/* Goes over argv; operands may stand between options. */
struct cmd_args {
    const struct cmd *cmd;
    int argc, at;
    char **argv;
    const char *rest; /* of a group of short options */
    bool ended;       /* "--" was seen */
    const char *arg;  /* of the option that was returned last */
    const char *name; /* its long name, for messages */
};

enum { CMD_DONE = 0, CMD_OPERAND = -1, CMD_BAD = -2, CMD_HELP = -3 };

void cmd_args_init(struct cmd_args *args, const struct cmd *cmd, int argc, char **argv);
/* The id of the next option, or CMD_OPERAND with the operand in args->arg, or CMD_DONE. CMD_BAD and CMD_HELP
 * have been dealt with (message or help printed): the caller returns cmd_args_status(). */
int cmd_args_next(struct cmd_args *args);
static inline int cmd_args_status(int id)
{
    return id == CMD_HELP ? EXIT_OK : EXIT_USAGE;
}

/* Argument of the last option as a number or size; false: a message was printed. */
bool cmd_args_number(const struct cmd_args *args, uint64_t min, uint64_t max, uint64_t *value);
bool cmd_args_size(const struct cmd_args *args, uint64_t *value);

void cmd_help(const struct cmd *cmd);
/* "farlane CMD: text", then where to find help. Returns EXIT_USAGE. */
int cmd_usage(const struct cmd *cmd, const char *fmt, ...) FL_PRINTF(2, 3);
/* "farlane: text". */
void cmd_complain(const char *fmt, ...) FL_PRINTF(1, 2);
/* Prints the error and returns the exit status that belongs to its code. */
int cmd_fail(const struct fl_error *err, int code);
/* The one place where errnos become exit statuses. -EINVAL and -ERANGE are values that somebody gave and that
 * cannot be right: they must not be handed here for what went wrong in an I/O. */
int cmd_exit_status(int code);
/* The end of every command: a result that could not be written is no result. Returns the status to leave
 * with. */
int cmd_finish(int status);

/* The entry of a NULL-terminated list that is nearest to what was typed, or NULL when none is near. */
const char *cmd_nearest(const char *typed, const char *const *names);

#endif
