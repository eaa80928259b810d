/* Ids of lists: packed, hashed and looked up; and the order of the scores beside them.

   Arrays in, arrays out: karat/data says what each means, and does the same without this library. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define PLACE 0xD6E8FEB86659FD93ull /* as in karat/scoring/list_hashes.py */

/* ---- pieces of a text ---- */

/* Each piece into `width` bytes, filled up with NUL, and its hash. The text has `size` bytes. */
void karat_pack(const uint8_t *text, int64_t size, const uint32_t *firsts, const uint32_t *sizes, int64_t count,
                int64_t width, uint8_t *packed, uint64_t *hashes) {
    for (int64_t i = 0; i < count; i++, packed += width)
        hashes[i] = pack_piece(text + firsts[i], sizes[i], text + size, width, packed);
}

/* Whether a byte is among them. */
int64_t karat_has(const uint8_t *bytes, int64_t count, int64_t byte) {
    return count > 0 && memchr(bytes, (int)byte, (size_t)count) != NULL;
}

/* All pieces with a line break between two; returns the number of bytes. */
int64_t karat_join(const uint8_t *text, const int64_t *firsts, const int64_t *after, int64_t count, uint8_t *joined) {
    uint8_t *p = joined;
    for (int64_t i = 0; i < count; i++) {
        size_t size = (size_t)(after[i] - firsts[i]);
        if (i) *p++ = '\n';
        memcpy(p, text + firsts[i], size);
        p += size;
    }
    return p - joined;
}

/* ---- hashes ---- */

void karat_hash(const uint8_t *packed, int64_t count, int64_t words, uint64_t *hashes) {
    for (int64_t i = 0; i < count; i++) {
        uint64_t total = 0, word;
        for (int64_t place = 0; place < words; place++, packed += 8) {
            memcpy(&word, packed, 8);
            total += mixed(word, (uint64_t)place);
        }
        hashes[i] = finished(total);
    }
}

/* The same of the bytes before the first `byte` of each. */
void karat_hash_cut(const uint8_t *packed, int64_t count, int64_t words, int64_t byte, uint64_t *hashes) {
    const uint64_t ones = 0x0101010101010101ull, each = (uint64_t)(byte & 255) * ones;
    for (int64_t i = 0; i < count; i++, packed += 8 * words) {
        uint64_t total = 0, word;
        for (int64_t place = 0; place < words; place++) {
            memcpy(&word, packed + 8 * place, 8);
            uint64_t same = word ^ each, found = (same - ones) & ~same & (0x80 * ones); /* exact up to the first one */
            if (found) word &= ((found & -found) >> 7) - 1;
            total += mixed(word, (uint64_t)place);
            if (found) break;
        }
        hashes[i] = finished(total);
    }
}

/* Fill each up with NUL from the first `byte` on. */
void karat_cut(uint8_t *packed, int64_t count, int64_t words, int64_t byte) {
    const int64_t width = 8 * words;
    for (int64_t i = 0; i < count; i++, packed += width) {
        uint8_t *found = memchr(packed, (int)byte, (size_t)width);
        if (found) memset(found, 0, (size_t)(packed + width - found));
    }
}

/* Hashes of lines, each as if it was packed. */
void karat_hash_lines(const uint8_t *text, int64_t size, int64_t count, uint64_t *hashes) {
    const uint8_t *end = text + size;
    for (int64_t i = 0; i < count; i++) {
        const uint8_t *stop = text < end ? memchr(text, '\n', (size_t)(end - text)) : NULL;
        if (!stop) stop = end;
        uint64_t total = 0;
        for (int64_t place = 0; text < stop; place++, text += 8) {
            uint64_t word = 0;
            memcpy(&word, text, stop - text < 8 ? (size_t)(stop - text) : 8);
            total += mixed(word, (uint64_t)place);
        }
        hashes[i] = finished(total);
        text = stop < end ? stop + 1 : end;
    }
}

/* Slots of large tables are far from each other. They are asked for this many steps before they are needed. */
enum { AHEAD = 16 };
#if defined(__GNUC__)
#define SOON(place) __builtin_prefetch(place)
#else
#define SOON(place) ((void)(place))
#endif

/* Add hashes to a table of room + 1 slots (room = 2^n - 1, 0 = empty), which must have room for them. Whether one was
   there already. */
int64_t karat_seen(const uint64_t *hashes, int64_t count, uint64_t *slots, uint64_t room) {
    int64_t again = 0;
    for (int64_t i = 0; i < count; i++) {
        uint64_t hash = hashes[i] ? hashes[i] : SPREAD, slot = ((hash * SPREAD) >> 20) & room;
        if (i + AHEAD < count) SOON(slots + (((hashes[i + AHEAD] * SPREAD) >> 20) & room));
        while (slots[slot] && slots[slot] != hash) slot = (slot + 1) & room;
        again |= slots[slot] == hash;
        slots[slot] = hash;
    }
    return again;
}

enum { FEW = 16 };

/* Whether one of `count` hashes is there twice; also 1 if that is not clear after some turns. Each turn counts in `met`
   which bytes are met by several hashes, and leaves these hashes for the next turn, which looks at other bits of them.
   `met` has room for 8 bytes per hash, rounded up to a power of two, and `left` for all hashes. */
static int repeats(const uint64_t *hashes, int64_t count, uint8_t *met, uint64_t *left) {
    for (int turn = 20; count > 1; turn += 8) {
        if (turn > 52) return 1;
        uint64_t room = 128;
        while (room < 8 * (uint64_t)count) room *= 2;
        memset(met, 0, room);
        for (int64_t row = 0; row < count; row++) {
            uint8_t *own = met + (hashes[row] >> turn & (room - 1));
            *own = (uint8_t)(*own << 1 | 1);
        }
        int64_t others = 0; /* no branch: left or not, each hash is written */
        for (int64_t row = 0; row < count; row++) {
            left[others] = hashes[row];
            others += met[hashes[row] >> turn & (room - 1)] > 1;
        }
        hashes = left;
        count = others;
    }
    return 0;
}

/* Whether a hash may stand twice with its owner: owner i has offsets[i] … offsets[i + 1]. Never 0 if one does. -1: no
   memory. */
int64_t karat_repeats(const uint64_t *hashes, const int64_t *offsets, int64_t owners) {
    int64_t most = 0, repeated = 0;
    for (int64_t i = 0; i < owners; i++) if (offsets[i + 1] - offsets[i] > most) most = offsets[i + 1] - offsets[i];
    if (most >= INT32_MAX) return -1;
    uint64_t room = 128;
    while (room < 8 * (uint64_t)most) room *= 2;
    uint8_t *met = most > FEW ? malloc(room) : NULL;
    uint64_t *left = most > FEW ? malloc((size_t)most * sizeof *left) : NULL;
    if (most > FEW && (!met || !left)) repeated = -1;
    for (int64_t i = 0; i < owners && !repeated; i++) {
        const uint64_t *own = hashes + offsets[i];
        int64_t count = offsets[i + 1] - offsets[i];
        if (count > FEW) repeated = repeats(own, count, met, left);
        else
            for (int64_t row = 1; row < count; row++)
                for (int64_t other = 0; other < row; other++) repeated |= own[row] == own[other];
    }
    free(met);
    free(left);
    return repeated;
}

/* For each hash the number of the first that is equal, with a table of room + 1 empty slots (room = 2^n - 1). */
void karat_firsts(const uint64_t *hashes, int64_t count, uint32_t *slots, uint64_t room, int64_t *firsts) {
    for (int64_t i = 0; i < count; i++) {
        uint64_t slot = (hashes[i] >> 20) & room;
        if (i + AHEAD < count) SOON(slots + ((hashes[i + AHEAD] >> 20) & room));
        while (slots[slot] && hashes[slots[slot] - 1] != hashes[i]) slot = (slot + 1) & room;
        if (!slots[slot]) slots[slot] = (uint32_t)(i + 1);
        firsts[i] = slots[slot] - 1;
    }
}

/* How many different hashes each owner has: owner i has offsets[i] … offsets[i + 1]. -1: no memory. */
int64_t karat_distinct(const uint64_t *hashes, const int64_t *offsets, int64_t owners, int64_t *counts) {
    int64_t most = 0;
    for (int64_t i = 0; i < owners; i++) if (offsets[i + 1] - offsets[i] > most) most = offsets[i + 1] - offsets[i];
    if (most >= INT32_MAX) return -1;
    size_t room = 16;
    while (room < 2 * (size_t)most) room *= 2;
    uint32_t *slots = most > FEW ? malloc(room * sizeof *slots) : NULL; /* number + 1 of a hash of the owner */
    if (most > FEW && !slots) return -1;
    for (int64_t i = 0; i < owners; i++) {
        const uint64_t *own = hashes + offsets[i];
        int64_t count = offsets[i + 1] - offsets[i], distinct = 0;
        if (count <= FEW) {
            for (int64_t row = 0; row < count; row++) {
                int again = 0;
                for (int64_t other = 0; other < row; other++) again |= own[row] == own[other];
                distinct += !again;
            }
        } else {
            size_t mask = 15;
            while (mask + 1 < 2 * (size_t)count) mask = 2 * mask + 1;
            memset(slots, 0, (mask + 1) * sizeof *slots);
            for (int64_t row = 0; row < count; row++) {
                size_t slot = (size_t)(own[row] >> 20) & mask;
                while (slots[slot] && own[slots[slot] - 1] != own[row]) slot = (slot + 1) & mask;
                distinct += !slots[slot];
                if (!slots[slot]) slots[slot] = (uint32_t)(row + 1);
            }
        }
        counts[i] = distinct;
    }
    free(slots);
    return 0;
}

/* Fill a table of room + 1 slots (room = 2^n - 1): number + 1 of the first of each hash, 0 = empty; and a filter of bits. */
void karat_index(const uint64_t *hashes, int64_t count, uint32_t *slots, uint64_t room, uint64_t *bits, int64_t shift) {
    for (int64_t i = 0; i < count; i++) {
        uint64_t hash = hashes[i], slot = (hash >> 20) & room, bit = hash >> shift;
        if (i + AHEAD < count) {
            SOON(slots + ((hashes[i + AHEAD] >> 20) & room));
            SOON(bits + (hashes[i + AHEAD] >> shift >> 6));
        }
        bits[bit >> 6] |= 1ull << (bit & 63);
        while (slots[slot] && hashes[slots[slot] - 1] != hash) slot = (slot + 1) & room;
        if (!slots[slot]) slots[slot] = (uint32_t)(i + 1);
    }
}

/* Rows of `wanted` that are in the table, and where; returns how many. Rows offsets[i] … offsets[i + 1] belong to
   queries[i], which is part of their hash in the table. */
int64_t karat_find(const uint64_t *hashes, const uint32_t *slots, uint64_t room, const uint64_t *bits, int64_t shift,
                   const uint64_t *wanted, const int64_t *offsets, const int64_t *queries, int64_t owners, int64_t *rows,
                   int64_t *found) {
    int64_t n = 0;
    for (int64_t owner = 0; owner < owners; owner++) {
        uint64_t salt = (uint64_t)queries[owner] * SPREAD;
        for (int64_t i = offsets[owner]; i < offsets[owner + 1]; i++) {
            uint64_t hash = wanted[i] ^ salt, bit = hash >> shift;
            if (i + AHEAD < offsets[owner + 1]) SOON(bits + ((wanted[i + AHEAD] ^ salt) >> shift >> 6));
            if (!(bits[bit >> 6] >> (bit & 63) & 1)) continue;
            uint64_t slot = (hash >> 20) & room;
            while (slots[slot] && hashes[slots[slot] - 1] != hash) slot = (slot + 1) & room;
            if (!slots[slot]) continue;
            rows[n] = i;
            found[n++] = slots[slot] - 1;
        }
    }
    return n;
}

/* Whether an id, cut before the first `byte` (-1: whole), is the name. Both are filled up with NUL. */
static int is_name(const uint8_t *id, int64_t width, int64_t byte, const uint8_t *name, int64_t name_width) {
    const uint8_t *stop = byte < 0 ? NULL : memchr(id, (int)byte, (size_t)width);
    int64_t size = stop ? stop - id : width, both = size < name_width ? size : name_width;
    if (memcmp(id, name, (size_t)both)) return 0;
    for (int64_t i = both; i < size; i++) if (id[i]) return 0;
    for (int64_t i = both; i < name_width; i++) if (name[i]) return 0;
    return 1;
}

/* For each pair of a row and an item, whether the id of the row, cut before the first `byte` (-1: whole), is the name of
   the item. */
int64_t karat_confirm(const uint8_t *ids, int64_t width, int64_t byte, const uint8_t *names, int64_t name_width,
                      const int64_t *rows, const int64_t *items, int64_t count, uint8_t *same) {
    int64_t all = 1;
    for (int64_t i = 0; i < count; i++) {
        same[i] = (uint8_t)is_name(ids + rows[i] * width, width, byte, names + items[i] * name_width, name_width);
        all &= same[i];
    }
    return all;
}

/* Mark the names in the table that ids have, or their documents if they are cut at a `byte`. `hashed`: of what is looked
   for. Name i is the numbers[i]-th of those that are marked. */
void karat_mark(const uint64_t *hashes, const uint32_t *slots, uint64_t room, const uint64_t *bits, int64_t shift,
                const uint64_t *hashed, const uint8_t *ids, int64_t count, int64_t width, int64_t byte, const uint8_t *names,
                int64_t name_width, const int64_t *numbers, uint8_t *marked) {
    enum { BATCH = 64 };
    int64_t row[BATCH], at[BATCH];
    for (int64_t start = 0; start < count; start += BATCH) { /* step by step, each asking for what the next one needs */
        const int64_t end = count - start < BATCH ? count : start + BATCH;
        int64_t likely = 0, there = 0, left = 0;
        for (int64_t i = start; i < end; i++) {
            const uint64_t bit = hashed[i] >> shift;
            row[likely] = i;
            likely += bits[bit >> 6] >> (bit & 63) & 1;
        }
        for (int64_t i = 0; i < likely; i++) SOON(slots + ((hashed[row[i]] >> 20) & room));
        for (int64_t i = 0; i < likely; i++) {
            const uint32_t first = slots[(hashed[row[i]] >> 20) & room];
            if (first) SOON(hashes + first - 1);
        }
        for (int64_t i = 0; i < likely; i++) {
            const uint64_t hash = hashed[row[i]];
            uint64_t slot = (hash >> 20) & room;
            while (slots[slot] && hashes[slots[slot] - 1] != hash) slot = (slot + 1) & room;
            if (!slots[slot]) continue;
            row[there] = row[i];
            at[there] = slots[slot] - 1;
            SOON(numbers + at[there++]);
        }
        for (int64_t i = 0; i < there; i++) SOON(marked + numbers[at[i]]);
        for (int64_t i = 0; i < there; i++) {
            if (marked[numbers[at[i]]]) continue;
            row[left] = row[i];
            at[left] = at[i];
            SOON(names + at[left++] * name_width);
        }
        for (int64_t i = 0; i < left; i++)
            if (is_name(ids + row[i] * width, width, byte, names + at[i] * name_width, name_width)) marked[numbers[at[i]]] = 1;
    }
}

/* For each row of a list the first item of its query with the same hash, and not left out: pairs of row and item. Returns
   how many, or -1 if there is no memory. Query q has the items bounds[q] … bounds[q + 1]; `left_out` may be NULL. */
int64_t karat_match(const uint64_t *hashes, const int64_t *offsets, const int64_t *queries, int64_t owners,
                    const uint64_t *table, const int64_t *bounds, const uint8_t *left_out, int64_t *rows, int64_t *items) {
    int64_t n = 0, most = 0;
    for (int64_t owner = 0; owner < owners; owner++) {
        int64_t size = bounds[queries[owner] + 1] - bounds[queries[owner]];
        if (size > most) most = size;
    }
    if (most >= INT32_MAX) return -1;
    size_t room = 16;
    while (room < 2 * (size_t)most) room *= 2;
    uint32_t *slots = most > FEW ? malloc(room * sizeof *slots) : NULL; /* number + 1 of an item of the query */
    if (most > FEW && !slots) return -1;
    for (int64_t owner = 0; owner < owners; owner++) {
        int64_t first = bounds[queries[owner]], size = bounds[queries[owner] + 1] - first, end = offsets[owner + 1];
        const uint64_t *own = table + first;
        if (size <= FEW) {
            uint64_t wanted[FEW];
            int64_t numbers[FEW], count = 0;
            for (int64_t i = 0; i < size; i++) {
                if (left_out && left_out[first + i]) continue;
                wanted[count] = own[i];
                numbers[count++] = first + i;
            }
            for (int64_t row = offsets[owner]; row < end && count; row++) {
                uint64_t hash = hashes[row];
                for (int64_t i = 0; i < count; i++) {
                    if (wanted[i] != hash) continue;
                    rows[n] = row;
                    items[n++] = numbers[i];
                    break;
                }
            }
            continue;
        }
        size_t mask = 15;
        while (mask + 1 < 2 * (size_t)size) mask = 2 * mask + 1;
        memset(slots, 0, (mask + 1) * sizeof *slots);
        for (int64_t i = 0; i < size; i++) {
            if (left_out && left_out[first + i]) continue;
            size_t slot = (size_t)(own[i] >> 20) & mask;
            while (slots[slot] && own[slots[slot] - 1] != own[i]) slot = (slot + 1) & mask;
            if (!slots[slot]) slots[slot] = (uint32_t)(i + 1);
        }
        for (int64_t row = offsets[owner]; row < end; row++) {
            size_t slot = (size_t)(hashes[row] >> 20) & mask;
            while (slots[slot] && own[slots[slot] - 1] != hashes[row]) slot = (slot + 1) & mask;
            if (!slots[slot]) continue;
            rows[n] = row;
            items[n++] = first + slots[slot] - 1;
        }
    }
    free(slots);
    return n;
}

/* Hashes of the ordered ids of each list, at each depth and over the whole list. `order`: the row at each place, or NULL. */
void karat_list_hashes(const uint64_t *hashes, const int64_t *order, const int64_t *offsets, int64_t owners,
                       const int64_t *depths, int64_t columns, uint64_t *found) {
    for (int64_t owner = 0; owner < owners; owner++, found += columns + 1) {
        uint64_t total = 0, place = 0;
        int64_t column = 0, end = offsets[owner + 1];
        for (int64_t at = offsets[owner]; at < end; at++) {
            while (column < columns && (uint64_t)depths[column] == place) found[column++] = total;
            uint64_t word = (hashes[order ? order[at] : at] ^ (++place * PLACE)) * SPREAD;
            total += (word ^ (word >> 32)) * SPREAD;
        }
        while (column <= columns) found[column++] = total;
    }
}

/* ---- scores ---- */

enum { GAP = 1, FALLS = 2, RISES = 4, UNSORTED = 8, TIED = 16, ROUNDED = 32 };

/* The facts of two neighbours, and whether they are tied. */
static inline unsigned neighbours(double before, double score, int64_t narrow, uint8_t *tied) {
    unsigned above = score > before, same = score == before, rises = above, equal = same;
    if (narrow) {
        float left = (float)before, right = (float)score;
        above = right > left;
        same = left == right;
    }
    *tied = (uint8_t)same;
    return (score != score) * GAP | (score < before) * FALLS | rises * RISES | above * UNSORTED | same * TIED |
           (same & !equal) * ROUNDED;
}

/* What holds somewhere in each list, with the scores of two neighbours (`narrow`: compared as 32-bit numbers); and which
   rows are tied with the row before them. */
void karat_order(const double *scores, const int64_t *offsets, int64_t owners, int64_t narrow, uint8_t *facts, uint8_t *tied) {
    for (int64_t owner = 0; owner < owners; owner++) {
        int64_t i = offsets[owner], end = offsets[owner + 1];
        unsigned found = 0;
        if (i < end) {
            found = scores[i] != scores[i] ? GAP : 0;
            tied[i++] = 0;
        }
#if defined(__SSE2__)
        if (narrow && end - i >= 4) { /* four pairs of neighbours at a time */
            __m128d gaps = _mm_setzero_pd(), falls = gaps, rises = gaps;
            __m128 aboves = _mm_setzero_ps(), sames = aboves, rounded = aboves;
            for (; end - i >= 4; i += 4) {
                const __m128d left_1 = _mm_loadu_pd(scores + i - 1), left_2 = _mm_loadu_pd(scores + i + 1);
                const __m128d right_1 = _mm_loadu_pd(scores + i), right_2 = _mm_loadu_pd(scores + i + 2);
                const __m128 left = _mm_movelh_ps(_mm_cvtpd_ps(left_1), _mm_cvtpd_ps(left_2));
                const __m128 right = _mm_movelh_ps(_mm_cvtpd_ps(right_1), _mm_cvtpd_ps(right_2));
                const __m128 same = _mm_cmpeq_ps(left, right);
                const __m128d equal_1 = _mm_cmpeq_pd(left_1, right_1), equal_2 = _mm_cmpeq_pd(left_2, right_2);
                const __m128 equal = _mm_shuffle_ps(_mm_castpd_ps(equal_1), _mm_castpd_ps(equal_2), 0x88);
                gaps = _mm_or_pd(gaps, _mm_cmpunord_pd(right_1, right_2));
                falls = _mm_or_pd(falls, _mm_or_pd(_mm_cmplt_pd(right_1, left_1), _mm_cmplt_pd(right_2, left_2)));
                rises = _mm_or_pd(rises, _mm_or_pd(_mm_cmpgt_pd(right_1, left_1), _mm_cmpgt_pd(right_2, left_2)));
                aboves = _mm_or_ps(aboves, _mm_cmpgt_ps(right, left));
                sames = _mm_or_ps(sames, same);
                rounded = _mm_or_ps(rounded, _mm_andnot_ps(equal, same));
                __m128i bytes = _mm_packs_epi32(_mm_castps_si128(same), _mm_setzero_si128());
                bytes = _mm_and_si128(_mm_packs_epi16(bytes, bytes), _mm_set1_epi8(1));
                int32_t four = _mm_cvtsi128_si32(bytes);
                memcpy(tied + i, &four, 4);
            }
            found |= (_mm_movemask_pd(gaps) ? GAP : 0) | (_mm_movemask_pd(falls) ? FALLS : 0) |
                     (_mm_movemask_pd(rises) ? RISES : 0) | (_mm_movemask_ps(aboves) ? UNSORTED : 0) |
                     (_mm_movemask_ps(sames) ? TIED : 0) | (_mm_movemask_ps(rounded) ? ROUNDED : 0);
        }
#endif
        for (; i < end; i++) found |= neighbours(scores[i - 1], scores[i], narrow, tied + i);
        facts[owner] = (uint8_t)found;
    }
}

/* Puts each list in falling order, in place. Returns 0 at the first list that is too long for this way of sorting. */
int64_t karat_descend(double *values, int64_t size, const int64_t *offsets, int64_t owners) {
    const int64_t longest = 64;
    for (int64_t owner = 0; owner < owners; owner++) {
        const int64_t first = offsets[owner], end = offsets[owner + 1];
        if (first < 0 || end < first || end > size) return 0;
        for (int64_t i = first + 1; i < end; i++) {
            const double value = values[i];
            if (!(value > values[i - 1])) continue;
            if (end - first > longest) return 0;
            int64_t at = i;
            for (; at > first && value > values[at - 1]; at--) values[at] = values[at - 1];
            values[at] = value;
        }
    }
    return 1;
}

/* Whether each rank is the place of its hit in its list. */
int64_t karat_ranks(const double *ranks, const int64_t *offsets, int64_t owners) {
    int64_t other = 0;
    for (int64_t owner = 0; owner < owners && !other; owner++)
        for (int64_t i = offsets[owner]; i < offsets[owner + 1]; i++) other |= ranks[i] != (double)(i - offsets[owner] + 1);
    return !other;
}

/* For each place the first and the one after the last of its tie: tied[i] says that places i - 1 and i are tied. */
void karat_ties(const uint8_t *tied, int64_t size, const int64_t *places, int64_t count, int64_t *starts, int64_t *ends) {
    for (int64_t i = 0; i < count; i++) {
        int64_t start = places[i], end = places[i] + 1;
        while (start > 0 && tied[start]) start--;
        while (end < size && tied[end]) end++;
        starts[i] = start;
        ends[i] = end;
    }
}
