/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"
#include "cmd.h"
#include "term.h"

static int run_help(int argc, char **argv);
static int run_version(int argc, char **argv);

static const struct cmd_option no_options[] = {CMD_OPTION_END};

static const struct cmd cmd_help_ = {
    .name = "help",
    .summary = "what there is, or how one command is used",
    .usage = "help [COMMAND]",
    .options = no_options,
    .run = run_help,
};

static const struct cmd cmd_version = {
    .name = "version",
    .summary = "version of this program",
    .usage = "version",
    .options = no_options,
    .run = run_version,
};

static const struct cmd *const commands[] = {
    &cmd_serve,  &cmd_ctl,     &cmd_discover, &cmd_info, &cmd_read, &cmd_write, &cmd_copy,   &cmd_bench,  &cmd_tax,
    &cmd_advise, &cmd_explain, &cmd_sim,      &cmd_rnic, &cmd_run,  &cmd_doctor, &cmd_help_, &cmd_version,
};

static const char overview[] =
    "URLs of namespaces:\n"
    "  nvme+tcp://HOST[:4420]/NQN[?ns=1&hdgst=1&ddgst=1]   on another machine\n"
    "  nvme+rdma://HOST[:4420]/NQN[?ns=1&dev=auto]         the same by RDMA\n"
    "  file:PATH   ram:SIZE   null:SIZE                    on this one\n"
    "\n"
    "Try it in two terminals:\n"
    "  farlane serve --ns ram:1G\n"
    "  farlane discover nvme+tcp://127.0.0.1\n"
    "and for RDMA, without hardware too:\n"
    "  farlane serve --ns ram:1G --listen rdma://127.0.0.1 --listen tcp://127.0.0.1\n"
    "  farlane explain nvme+rdma://127.0.0.1\n"
    "\n"
    "Exit status: 0 done, 1 failed, 2 wrong usage or value, 3 not reachable, 4 not allowed, 5 not found,\n"
    "6 data differ, 7 a lesser path than required.\n"
    "More: farlane COMMAND --help, man farlane, man farlane.yaml\n";

static void print_overview(FILE *f)
{
    size_t i;

    fprintf(f, "%sfarlane%s: remote storage that feels local (NVMe over Fabrics, in user space)\n\n",
            term_on(f, TERM_BOLD), term_off(f));
    fprintf(f, "Usage: farlane COMMAND [OPTIONS]\n\n");
    for (i = 0; i < FL_ARRAY_LEN(commands); i++)
        fprintf(f, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    fprintf(f, "\n%s", overview);
}

static const struct cmd *find(const char *name)
{
    size_t i;

    for (i = 0; i < FL_ARRAY_LEN(commands); i++)
        if (!strcmp(commands[i]->name, name))
            return commands[i];
    return NULL;
}

static int complain_unknown(const char *typed)
{
    const char *names[FL_ARRAY_LEN(commands) + 1], *near;
    size_t i;

    for (i = 0; i < FL_ARRAY_LEN(commands); i++)
        names[i] = commands[i]->name;
    names[i] = NULL;
    near = cmd_nearest(typed, names);
    if (near)
        cmd_complain("there is no command '%s'; did you mean 'farlane %s'?", typed, near);
    else
        cmd_complain("there is no command '%s' (see: farlane help)", typed);
    return EXIT_USAGE;
}

static int run_help(int argc, char **argv)
{
    const struct cmd *cmd;

    if (argc < 2) {
        print_overview(stdout);
        return EXIT_OK;
    }
    cmd = find(argv[1]);
    if (!cmd)
        return complain_unknown(argv[1]);
    cmd_help(cmd);
    return EXIT_OK;
}

static int run_version(int argc, char **argv)
{
    if (argc > 1)
        return cmd_usage(&cmd_version, "'%s' is too much: it takes nothing", argv[1]);
    printf("farlane %s\n", FARLANE_VERSION);
    return EXIT_OK;
}

/*
 * A standard stream that came closed would be the next file or socket that is opened, and get our messages.
 * What takes its place fails as it did: input cannot be read, output cannot be written.
 */
static void occupy_standard_fds(void)
{
    int fd;

    for (fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
            return;
}

static int run(int argc, char **argv)
{
    const struct cmd *cmd;

    if (argc < 2) {
        print_overview(stderr);
        return EXIT_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
        return run_help(argc - 1, argv + 1);
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V"))
        return run_version(1, argv);
    cmd = find(argv[1]);
    if (!cmd)
        return complain_unknown(argv[1]);
    if (cmd->options == no_options && argc > 2 && !strcmp(argv[2], "--help")) {
        cmd_help(cmd);
        return EXIT_OK;
    }
    return cmd->run(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    occupy_standard_fds();
    signal(SIGPIPE, SIG_IGN);
    return cmd_finish(run(argc, argv));
}
