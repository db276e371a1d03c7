/* SPDX-License-Identifier: Apache-2.0 */
/* A program that is not linked with libibverbs: finds it by itself, from a thread and a forked child too. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

struct ibv_device;
struct ibv_context;

static struct ibv_device **(*get_list)(int *nr);
static void (*free_list)(struct ibv_device **list);
static const char *(*name_of)(struct ibv_device *device);
static struct ibv_context *(*open_device)(struct ibv_device *device);
static int (*close_device)(struct ibv_context *context);

static void *look(void *how)
{
    int nr = 0;
    struct ibv_device **list = get_list(&nr);
    if (!list || !nr)
        return NULL;
    struct ibv_context *context = open_device(list[0]);
    if (context && !close_device(context))
        printf("%s by %s\n", name_of(list[0]), (const char *)how);
    free_list(list);
    fflush(stdout);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    void *verbs = dlopen("libibverbs.so.1", RTLD_NOW), *plugin = dlopen("libplugin.so", RTLD_NOW);
    if (!verbs || !plugin) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    *(void **)&get_list = dlvsym(verbs, "ibv_get_device_list", "IBVERBS_1.1");
    *(void **)&free_list = dlsym(verbs, "ibv_free_device_list");
    *(void **)&name_of = dlsym(verbs, "ibv_get_device_name");
    *(void **)&open_device = dlsym(verbs, "ibv_open_device");
    *(void **)&close_device = dlsym(verbs, "ibv_close_device");
    int (*answer)(void) = (int (*)(void))dlsym(plugin, "answer");
    if (!get_list || !free_list || !name_of || !open_device || !close_device || !answer)
        return 1;
    look("dlopen");
    printf("plugin %d\n", answer());
    if (pthread_create(&thread, NULL, look, "a thread"))
        return 1;
    pthread_join(thread, NULL);
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        look("a child");
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    dlclose(plugin);
    dlclose(verbs);
    return 0;
}
