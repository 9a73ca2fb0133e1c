/* Looks addresses up in DPDK's rte_fib or rte_fib6, for `ippath bench fib`.
 *
 *   rte_fib FAMILY ROUTES QUERIES [EAL arguments]
 *
 * ROUTES: records of an address (4 or 16 bytes, network order), 1 byte of length, 4 bytes of next hop
 * (little endian).  QUERIES: addresses, IPv4 as little-endian numbers.  For each line on its input,
 * "KIND BURST", it looks all of them up once and answers "NANOSECONDS SUM" where SUM adds up the next
 * hops found, or "none" where this processor has no such look-up.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_fib.h>
#include <rte_fib6.h>

#define MISS 0
#define MAX_BURST 4096

static void *read_file(const char *path, size_t *size)
{
	FILE *file = fopen(path, "rb");
	void *data;

	if (!file || fseek(file, 0, SEEK_END)) {
		perror(path);
		exit(1);
	}
	*size = ftell(file);
	rewind(file);
	data = malloc(*size + 1);
	if (!data || fread(data, 1, *size, file) != *size) {
		perror(path);
		exit(1);
	}
	fclose(file);
	return data;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static struct rte_fib *make4(const uint8_t *routes, size_t count)
{
	struct rte_fib_conf conf = {
		.type = RTE_FIB_DIR24_8, .default_nh = MISS, .max_routes = count + 16,
		.dir24_8 = { .nh_sz = RTE_FIB_DIR24_8_4B, .num_tbl8 = 1 << 15 },
	};
	struct rte_fib *fib = rte_fib_create("fib", -1, &conf);

	for (size_t i = 0; fib && i < count; i++, routes += 9) {
		uint32_t ip = (uint32_t)routes[0] << 24 | routes[1] << 16 | routes[2] << 8 | routes[3];
		uint32_t hop;

		memcpy(&hop, routes + 5, 4);
		if (rte_fib_add(fib, ip, routes[4], hop)) {
			fprintf(stderr, "rte_fib_add: route %zu: %s\n", i, rte_strerror(rte_errno));
			exit(1);
		}
	}
	return fib;
}

static struct rte_fib6 *make6(const uint8_t *routes, size_t count)
{
	struct rte_fib6_conf conf = {
		.type = RTE_FIB6_TRIE, .default_nh = MISS, .max_routes = count + 16,
		.trie = { .nh_sz = RTE_FIB6_TRIE_4B, .num_tbl8 = 1 << 19 },
	};
	struct rte_fib6 *fib = rte_fib6_create("fib6", -1, &conf);

	for (size_t i = 0; fib && i < count; i++, routes += 21) {
		uint32_t hop;

		memcpy(&hop, routes + 17, 4);
		if (rte_fib6_add(fib, routes, routes[16], hop)) {
			fprintf(stderr, "rte_fib6_add: route %zu: %s\n", i, rte_strerror(rte_errno));
			exit(1);
		}
	}
	return fib;
}

static int kind4(const char *name)
{
	if (!strcmp(name, "macro"))
		return RTE_FIB_LOOKUP_DIR24_8_SCALAR_MACRO;
	if (!strcmp(name, "inline"))
		return RTE_FIB_LOOKUP_DIR24_8_SCALAR_INLINE;
	if (!strcmp(name, "uni"))
		return RTE_FIB_LOOKUP_DIR24_8_SCALAR_UNI;
	if (!strcmp(name, "avx512"))
		return RTE_FIB_LOOKUP_DIR24_8_VECTOR_AVX512;
	return RTE_FIB_LOOKUP_DEFAULT;
}

static int kind6(const char *name)
{
	if (!strcmp(name, "scalar"))
		return RTE_FIB6_LOOKUP_TRIE_SCALAR;
	if (!strcmp(name, "avx512"))
		return RTE_FIB6_LOOKUP_TRIE_VECTOR_AVX512;
	return RTE_FIB6_LOOKUP_DEFAULT;
}

int main(int argc, char **argv)
{
	static uint64_t hops[MAX_BURST];
	struct rte_fib *fib = NULL;
	struct rte_fib6 *fib6 = NULL;
	size_t routes_size, queries_size, count;
	uint8_t *routes, *queries;
	char kind[32];
	unsigned int burst;
	int six;

	if (argc < 4)
		return 2;
	six = argv[1][0] == '6';
	routes = read_file(argv[2], &routes_size);
	queries = read_file(argv[3], &queries_size);
	argv[3] = argv[0];
	if (rte_eal_init(argc - 3, argv + 3) < 0) {
		fprintf(stderr, "rte_eal_init: %s\n", rte_strerror(rte_errno));
		return 1;
	}
	if (six)
		fib6 = make6(routes, routes_size / 21);
	else
		fib = make4(routes, routes_size / 9);
	if (!fib && !fib6) {
		fprintf(stderr, "no table: %s\n", rte_strerror(rte_errno));
		return 1;
	}
	count = queries_size / (six ? 16 : 4);
	puts("ready");
	fflush(stdout);
	while (scanf("%31s %u", kind, &burst) == 2) {
		uint64_t start, sum = 0;

		if (burst < 1 || burst > MAX_BURST ||
		    (six ? rte_fib6_select_lookup(fib6, kind6(kind))
			 : rte_fib_select_lookup(fib, kind4(kind)))) {
			puts("none");
			fflush(stdout);
			continue;
		}
		start = now_ns();
		for (size_t i = 0; i < count; i += burst) {
			unsigned int n = count - i < burst ? count - i : burst;

			if (six)
				rte_fib6_lookup_bulk(fib6, (uint8_t (*)[16])(queries + 16 * i), hops, n);
			else
				rte_fib_lookup_bulk(fib, (uint32_t *)(queries + 4 * i), hops, n);
			for (unsigned int k = 0; k < n; k++)
				sum += hops[k];
		}
		printf("%" PRIu64 " %" PRIu64 "\n", now_ns() - start, sum);
		fflush(stdout);
	}
	return 0;
}
