"""DPDK's rte_fib and rte_fib6 with the tables and queries of `ippath bench fib`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ippath.bench.fib_peers import FibProcess, rows_of
from ippath.bench.frag_peers import compiled
from ippath.bench.full_tables import Prefixes

# Prefixes and queries are files of 24 bytes a row: address, length, value.  A line of input asks for
# look-ups of a file of queries, a new table, or updates; the answer is one line.  Look-ups come in
# bulks that leave their answers in the first-level cache, which is the best case.
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_fib.h>
#include <rte_fib6.h>
#include <rte_malloc.h>
#include <rte_memory.h>

#define BULK 1024
#define SETS 16
struct row { uint8_t address[16]; uint32_t length, value; };
static struct row *rows;
static struct queries { long count; uint32_t *four; uint8_t (*six)[16]; } sets[SETS];
static long count, six;
static int used;
static int width, groups;
static struct rte_fib *fib;
static struct rte_fib6 *fib6;

static struct row *load(const char *path, long *size) {
    FILE *file = fopen(path, "rb");
    if (!file) exit(2);
    fseek(file, 0, SEEK_END);
    *size = ftell(file) / sizeof(struct row);
    rewind(file);
    struct row *found = malloc(*size * sizeof(struct row));
    if (fread(found, sizeof(struct row), *size, file) != (size_t)*size) exit(2);
    fclose(file);
    return found;
}

static uint32_t number(const uint8_t *a) {
    return (uint32_t)a[0] << 24 | a[1] << 16 | a[2] << 8 | a[3];
}

static void add(long k) {
    int wrong = six ? rte_fib6_add(fib6, rows[k].address, rows[k].length, rows[k].value)
                    : rte_fib_add(fib, number(rows[k].address), rows[k].length, rows[k].value);
    if (wrong) { fprintf(stderr, "add %ld: %d\n", k, wrong); exit(3); }
}

static void delete(long k) {
    int wrong = six ? rte_fib6_delete(fib6, rows[k].address, rows[k].length)
                    : rte_fib_delete(fib, number(rows[k].address), rows[k].length);
    if (wrong) { fprintf(stderr, "delete %ld: %d\n", k, wrong); exit(3); }
}

static void build(void) {
    if (fib) rte_fib_free(fib);
    if (fib6) rte_fib6_free(fib6);
    fib = NULL; fib6 = NULL;
    if (six) {
        struct rte_fib6_conf conf = {.type = RTE_FIB6_TRIE, .default_nh = 0, .max_routes = count + count / 8 + 256,
            .trie = {.nh_sz = __builtin_ctz(width), .num_tbl8 = groups}};
        fib6 = rte_fib6_create("six", SOCKET_ID_ANY, &conf);
    } else {
        struct rte_fib_conf conf = {.type = RTE_FIB_DIR24_8, .default_nh = 0, .max_routes = count + count / 8 + 256,
            .dir24_8 = {.nh_sz = __builtin_ctz(width), .num_tbl8 = 127}};
        fib = rte_fib_create("four", SOCKET_ID_ANY, &conf);
    }
    if (!fib && !fib6) { fprintf(stderr, "create: %s\n", rte_strerror(rte_errno)); exit(4); }
    for (long k = 0; k < count; k++) add(k);
}

static int take(const char *path) {
    if (used == SETS) exit(5);
    struct queries *q = sets + used;
    struct row *queries = load(path, &q->count);
    q->four = malloc(q->count * 4); q->six = malloc(q->count * 16);
    for (long k = 0; k < q->count; k++) {
        q->four[k] = number(queries[k].address);
        memcpy(q->six[k], queries[k].address, 16);
    }
    free(queries);
    return used++;
}

static unsigned long look_up(struct queries q, int kind) {
    static uint64_t found[BULK];
    unsigned long sum = 0;
    if (six ? rte_fib6_select_lookup(fib6, kind) : rte_fib_select_lookup(fib, kind)) exit(6);
    for (long k = 0; k < q.count; k += BULK) {
        int n = q.count - k < BULK ? q.count - k : BULK;
        if (six) rte_fib6_lookup_bulk(fib6, q.six + k, found, n);
        else rte_fib_lookup_bulk(fib, q.four + k, found, n);
        sum += found[0];
    }
    return sum;
}

static int huge(const struct rte_memseg_list *list, void *none) {
    (void)none;
    return madvise(list->base_va, list->len, MADV_HUGEPAGE), 0;
}

int main(int argc, char **argv) {
    char *eal[] = {argv[0], "--no-huge", "-m", "3072", "--no-pci", "--no-telemetry", "--no-shconf",
                   "--log-level", "1", "--force-max-simd-bitwidth=512"};
    if (argc < 5 || rte_eal_init(10, eal) < 0) return 1;
    rte_memseg_list_walk(huge, NULL);
    six = atol(argv[2]); width = atoi(argv[3]); groups = atoi(argv[4]);
    rows = load(argv[1], &count);
    puts("ready");
    fflush(stdout);
    char line[4096];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        unsigned long answer = 0;
        struct rte_malloc_socket_stats stats;
        if (line[0] == 'b') {
            build();
            rte_malloc_get_socket_stats(0, &stats);
            answer = stats.heap_allocsz_bytes;
        } else if (line[0] == 'q') {
            answer = take(line + 2);
        } else if (line[0] == 't') {
            answer = six ? rte_fib6_select_lookup(fib6, atoi(line + 2))
                         : rte_fib_select_lookup(fib, atoi(line + 2));
        } else if (line[0] == 'l') {
            int set = 0, kind = 0;
            sscanf(line + 2, "%d %d", &set, &kind);
            answer = look_up(sets[set], kind);
        } else if (line[0] == 'u') {
            long some = atol(line + 2);
            for (long k = 0; k < some; k++) delete(k);
            for (long k = 0; k < some; k++) add(k);
        }
        printf("%lu\n", answer);
        fflush(stdout);
    }
    return 0;
}
"""
BULK = 1024
SCALAR, VECTOR = {4: 1, 6: 1}, {4: 4, 6: 2}  # RTE_FIB_LOOKUP_*, RTE_FIB6_LOOKUP_*
WIDTHS = {4: (1, 4), 6: (4,)}  # bytes of a next hop: the least that do, and a usual number


def build_program(folder: Path) -> tuple[Path | None, str]:
    """(the program or None, DPDK's version or why there is none)."""
    return compiled(PROGRAM, folder / "dpdk_fib")


class DpdkFib(FibProcess):
    """A process that has the table in a FIB whose next hops have `width` bytes."""

    def __init__(self, program: Path, table: Prefixes, width: int):
        folder = program.parent
        path = self.save(folder, rows_of(table, table.key, table.length, table.value))
        groups = (
            int(np.sum((np.maximum(table.length, 24) - 24 + 7) // 8)) + 1
        )  # as DPDK reserves them
        numbers = (int(table.family == 6), width, groups)
        super().__init__([str(program), str(path), *map(str, numbers)], folder, table)
        self.memory = self.ask("b")

    def has(self, kind: int) -> bool:
        """Choose a look-up function, if this processor has what it needs."""
        return self.ask(f"t {kind}") == 0
