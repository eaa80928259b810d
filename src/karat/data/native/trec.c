/* Reads blocks of TREC runs and qrels into plain arrays. */

#include "hash.h"
#include "text.h"

typedef struct {
    int64_t columns, exactly, number; /* at least or exactly so many columns, and which one is a number */
    int64_t row_room, odd_room, width;
    /* By row: its number, its id in `width` bytes, and the hash of that. */
    double *numbers;
    uint8_t *ids;
    uint64_t *hashes;
    /* By stretch of rows with the same query: where its first line and its name begin, the line's number from 0. */
    int64_t *starts, *names, *name_sizes, *lines, *counts;
    int64_t *odd; /* row, first, size */
    int64_t odd_count, stretches, longest;
} table_t;

static int is_white(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Where the first columns of a line begin and end; returns how many there are, up to 7. `next` is the line break.
   `plain`: whether the line is certainly ASCII without a NUL. */
static inline int split(at_t p, at_t end, at_t *first, at_t *after, at_t *next, int *plain) {
    *plain = 0;
#if defined(__SSE2__)
    if (end - p >= 64) { /* six columns with one blank between two, in 64 bytes */
        const __m128i space = _mm_set1_epi8(' '), zero = _mm_setzero_si128();
        __m128i odd = zero;
        uint64_t white = 0;
        for (int i = 0; i < 4; i++) {
            __m128i x = _mm_loadu_si128((const __m128i *)(p + 16 * i));
            odd = _mm_or_si128(odd, _mm_or_si128(x, _mm_cmpeq_epi8(x, zero)));
            white |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(x, space), x)) << (16 * i);
        }
        at_t begin = p;
        for (int i = 0; i < 6 && white; i++) {
            at_t stop = p + lowest_bit(white);
            white &= white - 1;
            if (stop == begin) break;
            first[i] = begin;
            after[i] = stop;
            if (*stop == '\n') {
                *next = stop;
                *plain = !_mm_movemask_epi8(odd);
                return i + 1;
            }
            if (*stop != ' ' && *stop != '\t') break;
            begin = stop + 1;
        }
    }
#endif
    int count = 0;
    for (;;) {
        while (p < end && *p != '\n' && is_white(*p)) p++;
        if (p == end || *p == '\n') break;
        if (count == 6) {
            at_t stop = memchr(p, '\n', (size_t)(end - p));
            *next = stop ? stop : end;
            return 7;
        }
        first[count] = p;
        while (p < end && !is_white(*p)) p++;
        after[count++] = p;
    }
    *next = p;
    return count;
}

/* How many rows there are, or why they are not read. */
int64_t karat_table(at_t text, int64_t size, table_t *asked) {
    if (size < 0 || size >= INT32_MAX) return ODD;
    at_t p = text, end = text + size, name = NULL;
    int64_t row = 0, line = 0, name_size = -1, stretch = -1;
    asked->odd_count = asked->longest = 0;
    for (; p < end; line++) {
        at_t first[6], after[6], next, start = p;
        int plain, columns = split(p, end, first, after, &next, &plain);
        if (!plain && !is_text(p, next)) return ODD;
        p = next < end ? next + 1 : end;
        if (!columns) continue;
        if (columns < asked->columns || (asked->exactly && columns != asked->columns)) return ODD;
        if (row == asked->row_room) return FULL;
        int64_t length = after[0] - first[0];
        if (length != name_size || memcmp(name, first[0], (size_t)length)) {
            stretch++;
            name = first[0];
            name_size = length;
            asked->starts[stretch] = start - text;
            asked->names[stretch] = name - text;
            asked->name_sizes[stretch] = length;
            asked->lines[stretch] = line;
            asked->counts[stretch] = 0;
        }
        asked->counts[stretch]++;
        length = after[2] - first[2];
        if (length > asked->width) {
            asked->longest = length;
            return WIDE;
        }
        asked->hashes[row] = pack_piece(first[2], length, end, asked->width, asked->ids + row * asked->width);
        number_t number = {.value = 0, .exact = 0};
        at_t written = first[asked->number], stop = after[asked->number];
        int is_short = end - written >= NEAR && short_number(written, &number.value, &number.fraction) == stop;
        if (is_short) {
            asked->numbers[row++] = number.value;
            continue;
        }
        if (read_number(written, stop, &number) != stop || !number.exact || fabs(number.value) > 1e38) {
            if (asked->odd_count == asked->odd_room) return FULL;
            int64_t *odd = asked->odd + 3 * asked->odd_count++;
            odd[0] = row;
            odd[1] = written - text;
            odd[2] = stop - written;
            number.value = 0;
        }
        asked->numbers[row++] = number.value;
    }
    asked->stretches = stretch + 1;
    return row;
}
