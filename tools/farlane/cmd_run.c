/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a command with the drop-in libibverbs before its own libraries. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/address.h"
#include "base/util.h"
#include "cmd.h"
#include "verbs/choose.h"

#define LIBRARY "libfarlane-verbs.so"

/* As env(1) and others that run a command have it */
enum { STATUS_CANNOT_RUN = 126, STATUS_NO_COMMAND = 127 };

enum { OPT_DEVICE = 256, OPT_ONLY, OPT_STATS };

static const struct cmd_option options[] = {
    {OPT_DEVICE, "device", "NAME", "the program sees this device only; may be given several times"},
    {OPT_ONLY, "only", NULL, "the program sees no real devices, only the software RNIC's"},
    {OPT_STATS, "stats", NULL, "at its end, tell on standard error what the RNIC did and by which paths"},
    CMD_OPTION_END,
};

static int run_run(int argc, char **argv);

const struct cmd cmd_run = {
    .name = "run",
    .summary = "run an RDMA program, unmodified, on the software RNIC",
    .usage = "run [--device NAME] [--only] [--stats] [--] COMMAND [ARGUMENT...]",
    .details =
        "The command, and what it starts, see the software RNIC's devices (farlane0, ...) beside the real "
        "ones:\n"
        "the library " LIBRARY " stands before libibverbs and librdmacm (LD_PRELOAD). It needs no\n"
        "privileges and no kernel module. Programs that are linked statically or set-user-ID do not see it.\n"
        "Exit status: that of COMMAND; 126: it cannot be run, 127: there is no such command.\n"
        "\n"
        "Examples:\n"
        "  farlane run -- ibv_devinfo\n"
        "  farlane run --only -- ib_write_bw            # and in another terminal:\n"
        "  farlane run --only --stats -- ib_write_bw 127.0.0.1\n",
    .options = options,
    .run = run_run,
};

struct plan {
    char devices[1024]; /* with commas between */
    bool only, stats;
    char **command;
};

static bool add_device(struct plan *plan, const char *name)
{
    size_t at = strlen(plan->devices), room = sizeof(plan->devices) - at;
    if (!*name || strpbrk(name, ", ")) {
        cmd_usage(&cmd_run, "'%s' is no name of a device", name);
        return false;
    }
    if ((size_t)snprintf(plan->devices + at, room, "%s%s", at ? "," : "", name) >= room) {
        cmd_usage(&cmd_run, "that are too many devices");
        return false;
    }
    return true;
}

static int parse(struct plan *plan, int argc, char **argv)
{
    struct cmd_args args;
    int id;

    cmd_args_init(&args, &cmd_run, argc, argv);
    while ((id = cmd_args_next(&args)) != CMD_DONE) {
        switch (id) {
        case OPT_DEVICE:
            if (!add_device(plan, args.arg))
                return EXIT_USAGE;
            break;
        case OPT_ONLY:
            plan->only = true;
            break;
        case OPT_STATS:
            plan->stats = true;
            break;
        case CMD_OPERAND: /* what follows is the command's */
            plan->command = argv + args.at - 1;
            return EXIT_OK;
        default:
            return cmd_args_status(id);
        }
    }
    return cmd_usage(&cmd_run, "which command? For example: farlane run -- ibv_devinfo");
}

static void warn_of_unknown(const struct fl_choose_facts *facts, const char *name)
{
    for (uint32_t i = 0; i < facts->nr_soft; i++)
        if (!strcmp(name, facts->soft[i].device))
            return;
    for (uint32_t i = 0; i < facts->hw.nr_ports; i++)
        if (!strcmp(name, facts->hw.ports[i].device))
            return;
    cmd_complain("there is no RDMA device '%s' now (see: farlane rnic devices)", name);
}

/* It may come later, so this is no fault; mistyped it would be told by nobody. */
static void warn_of_unknown_devices(const char *devices)
{
    struct fl_choose_facts facts;
    struct fl_addr any;
    char *names, *rest, *name;

    if (fl_addr_parse("0.0.0.0", 1, &any, NULL) < 0 || fl_choose_look(&any, true, &facts) < 0)
        return;
    names = rest = strdup(devices);
    while (names && (name = strsep(&rest, ",")))
        warn_of_unknown(&facts, name);
    free(names);
    fl_choose_forget(&facts);
}

/* Beside this program: where both are installed, or built. */
static bool find_library(char path[PATH_MAX])
{
    static const char *const places[] = {"../" FARLANE_LIBDIR "/" LIBRARY, "../../src/preload/" LIBRARY};
    char exe[PATH_MAX], try[2 * PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    if (len < 0)
        return false;
    exe[len] = '\0';
    *strrchr(exe, '/') = '\0';
    for (size_t i = 0; i < FL_ARRAY_LEN(places); i++) {
        snprintf(try, sizeof(try), "%s/%s", exe, places[i]);
        if (realpath(try, path))
            return true;
    }
    cmd_complain("%s is not installed beside %s/farlane: neither as %s nor as %s", LIBRARY, exe, places[0],
                 places[1]);
    return false;
}

static int set(const char *name, const char *value)
{
    if (!setenv(name, value, 1))
        return EXIT_OK;
    cmd_complain("no memory for the environment");
    return EXIT_FAILED;
}

/* Before what is preloaded already, for that may stand on libibverbs. */
static int set_preload(const char *library)
{
    const char *others = getenv("LD_PRELOAD");
    char *all;
    if (strpbrk(library, " :")) { /* both part the list, and nothing protects them */
        cmd_complain(
            "the loader cannot preload a library from a folder with a space or colon in its name: %s",
            library);
        return EXIT_FAILED;
    }
    if (asprintf(&all, "%s%s%s", library, others && *others ? ":" : "", others ? others : "") < 0)
        return EXIT_FAILED;
    int status = set("LD_PRELOAD", all);
    free(all);
    return status;
}

static int run_run(int argc, char **argv)
{
    struct plan plan = {0};
    char library[PATH_MAX];
    int status = parse(&plan, argc, argv);

    if (!plan.command)
        return status;
    if (!find_library(library))
        return EXIT_NOT_FOUND;
    if (plan.devices[0])
        warn_of_unknown_devices(plan.devices);
    status = set_preload(library);
    if (!status && plan.devices[0])
        status = set("FARLANE_DEVICES", plan.devices);
    if (!status && plan.only)
        status = set("FARLANE_RNIC", "only");
    if (!status && plan.stats)
        status = set("FARLANE_RNIC_STATS", "stderr");
    if (status)
        return status;
    signal(SIGPIPE, SIG_DFL); /* as this program found it */
    execvp(plan.command[0], plan.command);
    status = errno == ENOENT ? STATUS_NO_COMMAND : STATUS_CANNOT_RUN;
    cmd_complain("cannot run %s: %s", plan.command[0], strerror(errno));
    return status;
}
