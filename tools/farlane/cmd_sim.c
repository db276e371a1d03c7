/* SPDX-License-Identifier: Apache-2.0 */
/* The RoCE engine in a simulated network: a seed is a run, the same one each time. */
#include <inttypes.h>
#include <stdio.h>

#include "base/util.h"
#include "cmd.h"
#include "rnic/sim/sim.h"
#include "save_file.h"

enum { OPT_SEED = 256, OPT_SEEDS, OPT_TRACE, OPT_PCAP, OPT_FORCE };

#define SEEDS_DEFAULT 300

static const struct cmd_option options[] = {
    {OPT_SEED, "seed", "N", "the first seed, default 0"},
    {OPT_SEEDS, "seeds", "COUNT", "how many, default 300; 1 with --seed"},
    {OPT_TRACE, "trace", NULL, "tell every packet and completion of the one seed"},
    {OPT_PCAP, "pcap", "FILE", "every packet sent in the one seed, as a capture for tshark"},
    {OPT_FORCE, "force", NULL, "--pcap: replace a file that is no capture"},
    CMD_OPTION_END,
};

static int run_sim(int argc, char **argv);

const struct cmd cmd_sim = {
    .name = "sim",
    .summary = "the software RNIC's engine in a simulated network, from a seed",
    .usage = "sim [--seed N] [--seeds COUNT] [--trace] [--pcap FILE [--force]]",
    .details =
        "Queue pairs of every type at both ends of a network that loses, repeats, reorders, delays and\n"
        "spoils packets. Each message must arrive once and in order, completions come in order, memory\n"
        "be equal, and total loss end in an error. The first seed that breaks this is told.\n"
        "Exit status 0: all held, 1: not.\n"
        "\n"
        "Examples:\n"
        "  farlane sim --seeds 2000\n"
        "  farlane sim --seed 17 --trace\n",
    .options = options,
    .run = run_sim,
};

struct sim {
    uint64_t seed, count;
    bool trace, seed_given, count_given, force;
    const char *pcap;
};

static int parse(struct sim *s, int argc, char **argv, bool *go)
{
    struct cmd_args args;
    int id;

    *go = false;
    cmd_args_init(&args, &cmd_sim, argc, argv);
    while ((id = cmd_args_next(&args)) != CMD_DONE) {
        switch (id) {
        case OPT_SEED:
            s->seed_given = true;
            if (!cmd_args_number(&args, 0, INT64_MAX, &s->seed))
                return EXIT_USAGE;
            break;
        case OPT_SEEDS:
            s->count_given = true;
            if (!cmd_args_number(&args, 1, INT64_MAX, &s->count))
                return EXIT_USAGE;
            break;
        case OPT_TRACE:
            s->trace = true;
            break;
        case OPT_PCAP:
            s->pcap = args.arg;
            break;
        case OPT_FORCE:
            s->force = true;
            break;
        case CMD_OPERAND:
            return cmd_usage(&cmd_sim, "'%s' is too much: it takes no operand", args.arg);
        default:
            return cmd_args_status(id);
        }
    }
    if (!s->count_given)
        s->count = s->seed_given || s->trace || s->pcap ? 1 : SEEDS_DEFAULT;
    if ((s->trace || s->pcap) && s->count != 1)
        return cmd_usage(&cmd_sim, "--%s is for one seed, not %" PRIu64, s->trace ? "trace" : "pcap",
                         s->count);
    *go = true;
    return EXIT_OK;
}

static int run_seeds(const struct sim *s, FILE *pcap)
{
    static struct world world;
    struct sim_totals totals = {0};

    for (uint64_t i = 0; i < s->count; i++) {
        int broken = sim_run(&world, s->seed + i, s->trace ? stdout : NULL, pcap);

        if (broken) {
            fflush(stdout);
            cmd_complain("seed %" PRIu64 " (%s): %s", s->seed + i, sim_scenario_name(world.scenario),
                         world.why);
            return EXIT_FAILED;
        }
        sim_totals_add(&totals, &world);
    }
    sim_totals_print(&totals, stdout);
    printf("all invariants hold\n");
    return EXIT_OK;
}

/* By its first bytes: in microseconds or nanoseconds, of this byte order or the other. */
static bool is_capture(const char *path)
{
    static const uint32_t magics[] = {0xa1b2c3d4, 0xd4c3b2a1, 0xa1b23c4d, 0x4d3cb2a1};
    FILE *f = fopen(path, "rbe");
    uint32_t magic = 0;
    bool is_one = false;

    if (!f)
        return false;
    if (fread(&magic, sizeof(magic), 1, f) == 1)
        for (size_t i = 0; i < FL_ARRAY_LEN(magics); i++)
            is_one |= magic == magics[i];
    fclose(f);
    return is_one;
}

static int run_sim(int argc, char **argv)
{
    static const struct save_kind kind = {"capture (pcap)", is_capture};
    struct fl_error err = {0};
    struct save_file file;
    struct sim s = {0};
    bool go;
    int rc, status = parse(&s, argc, argv, &go);

    if (!go)
        return status;
    if (!s.pcap)
        return run_seeds(&s, NULL);
    rc = save_file_begin(&file, s.pcap, &kind, s.force, &err);
    if (rc < 0)
        return cmd_fail(&err, rc);
    net_pcap_begin(file.f);
    status = run_seeds(&s, file.f);
    rc = save_file_end(&file, true, &err); /* of a seed that failed, too: that is the one to look at */
    if (rc < 0) {
        (void)cmd_fail(&err, rc);
        return EXIT_FAILED;
    }
    return status;
}
