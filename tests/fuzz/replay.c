/* SPDX-License-Identifier: Apache-2.0 */
/* Gives each file of the folders named to the fuzzer's function, once: replay FOLDER... */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

static void replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data, *exact;
    size_t len, room = 16 << 20;

    if (!f) {
        perror(path);
        exit(1);
    }
    data = malloc(room);
    len = fread(data, 1, room, f);
    fclose(f);
    exact = malloc(len ? len : 1);
    memcpy(exact, data, len);
    free(data);
    fprintf(stderr, "%s\n", path); /* the last one named is the one that crashed */
    LLVMFuzzerTestOneInput(exact, len);
    free(exact);
}

int main(int argc, char **argv)
{
    int n = 0;

    for (int i = 1; i < argc; i++) {
        DIR *dir = opendir(argv[i]);
        struct dirent *entry;
        char path[4096];

        if (!dir) {
            perror(argv[i]);
            return 1;
        }
        while ((entry = readdir(dir))) {
            if (entry->d_name[0] == '.')
                continue;
            snprintf(path, sizeof(path), "%s/%s", argv[i], entry->d_name);
            replay_file(path);
            n++;
        }
        closedir(dir);
    }
    printf("%d inputs\n", n);
    return n ? 0 : 1;
}
