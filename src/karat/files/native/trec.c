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
    int64_t odd_count, stretches, longest, more_columns; /* the last: rows with more than six */
} table_t;

static int is_white(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Where the first columns of a line begin and end; returns how many there are, up to 7. `next` is the line break. */
static int split(at_t p, at_t end, at_t *first, at_t *after, at_t *next) {
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

/* Whether a column is digits only. */
static int is_rank(at_t p, at_t stop) {
    while (p < stop && *p >= '0' && *p <= '9') p++;
    return p == stop;
}

/* Whether a column is this word, in lower or upper case. */
static int is_word(at_t p, at_t stop, const char *word) {
    for (; p < stop && *word && (*p | 32) == (uint8_t)*word; word++) p++;
    return p == stop && !*word;
}

/* Whether a column may be a number: it has nothing that a number does not have. */
static int may_be_number(at_t p, at_t stop) {
    if (p < stop && (*p == '+' || *p == '-')) p++;
    if (is_word(p, stop, "nan") || is_word(p, stop, "inf") || is_word(p, stop, "infinity")) return 1;
    if (p == stop || *p == 'e' || *p == 'E') return 0;
    for (; p < stop; p++)
        if (!((*p >= '0' && *p <= '9') || *p == '.' || *p == 'e' || *p == 'E' || *p == '+' || *p == '-')) return 0;
    return 1;
}

/* ---- many lines at once ---- */

enum { SEEN = 4096, LONG = 57, AHEAD = 112 }; /* bytes looked at together, of a line, and that must be left for one */

/* A bit for each of the next bytes. */
typedef struct {
    at_t begin, end;
    int high, strange;       /* whether some are not ASCII, or white space of other kinds */
    uint8_t white[SEEN / 8 + 8], breaks[SEEN / 8 + 8]; /* white space, line breaks */
} seen_t;

#if defined(__SSE2__)
enum { SEES = 1 };

static ALWAYS void see(seen_t *seen, at_t p) {
    const __m128i space = _mm_set1_epi8(' '), tab = _mm_set1_epi8('\t'), line_break = _mm_set1_epi8('\n');
    __m128i all = _mm_setzero_si128(), strange = all;
    seen->begin = p;
    seen->end = p + SEEN;
    for (int at = 0; at < SEEN / 8; at += 2, p += 16) {
        __m128i x = _mm_loadu_si128((const __m128i *)p), white = _mm_cmpeq_epi8(_mm_min_epu8(x, space), x);
        __m128i stop = _mm_cmpeq_epi8(x, line_break);
        __m128i usual = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(x, space), _mm_cmpeq_epi8(x, tab)), stop);
        uint16_t whites = (uint16_t)_mm_movemask_epi8(white), stops = (uint16_t)_mm_movemask_epi8(stop);
        all = _mm_or_si128(all, x);
        strange = _mm_or_si128(strange, _mm_xor_si128(white, usual));
        memcpy(seen->white + at, &whites, 2);
        memcpy(seen->breaks + at, &stops, 2);
    }
    seen->high = _mm_movemask_epi8(all) != 0;
    seen->strange = _mm_movemask_epi8(strange) != 0;
}
#else
enum { SEES = 0 };

static ALWAYS void see(seen_t *seen, at_t p) { seen->begin = seen->end = p; }
#endif

#if defined(__x86_64__) && defined(__GNUC__)
/* The same, 32 bytes at a time. */
FAST static void see_fast(seen_t *seen, at_t p) {
    const __m256i space = _mm256_set1_epi8(' '), line_break = _mm256_set1_epi8('\n');
    /* By the lower half of a byte: the one white space that ends with it. */
    const __m256i usual = _mm256_setr_epi8(' ', 0, 0, 0, 0, 0, 0, 0, 0, '\t', '\n', 0, 0, 0, 0, 0, ' ', 0, 0, 0, 0, 0, 0, 0, 0,
                                           '\t', '\n', 0, 0, 0, 0, 0);
    __m256i all = _mm256_setzero_si256(), strange = all;
    seen->begin = p;
    seen->end = p + SEEN;
    for (int at = 0; at < SEEN / 8; at += 4, p += 32) {
        __m256i x = _mm256_loadu_si256((const __m256i *)p), white = _mm256_cmpeq_epi8(_mm256_min_epu8(x, space), x);
        __m256i known = _mm256_cmpeq_epi8(_mm256_shuffle_epi8(usual, x), x);
        uint32_t whites = (uint32_t)_mm256_movemask_epi8(white);
        uint32_t stops = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(x, line_break));
        all = _mm256_or_si256(all, x);
        strange = _mm256_or_si256(strange, _mm256_xor_si256(white, known));
        memcpy(seen->white + at, &whites, 4);
        memcpy(seen->breaks + at, &stops, 4);
    }
    seen->high = _mm256_movemask_epi8(all) != 0;
    seen->strange = _mm256_movemask_epi8(strange) != 0;
}
#else
#define see_fast see
#endif

/* The bits of the LONG bytes from p on, and of up to 7 more. */
static inline uint64_t window(const uint8_t *bits, int64_t at) {
    uint64_t word;
    memcpy(&word, bits + (at >> 3), 8);
    return word >> (at & 7);
}

typedef struct {
    at_t p, name;
    int64_t row, line, name_size, stretch, begun;
} place_t;

/* Close the last stretch of rows, and begin another one with the line at `start`. */
static void begin_stretch(place_t *now, const table_t *want, at_t text, at_t start, at_t name, int64_t name_size) {
    if (now->stretch >= 0) want->counts[now->stretch] = now->row - now->begun;
    now->begun = now->row;
    now->name = name;
    now->name_size = name_size;
    int64_t stretch = ++now->stretch;
    want->starts[stretch] = start - text;
    want->names[stretch] = name - text;
    want->name_sizes[stretch] = name_size;
    want->lines[stretch] = now->line;
}

/* A column of two to eight bytes, where all of them can be read, if it is digits with one point. */
static ALWAYS int small_decimal(at_t p, at_t stop, double *value) {
    static const double PARTS[] = {1e7, 1e6, 1e5, 1e4, 1e3, 1e2, 1e1, 1e0};
    const uint64_t sixes = 0x0606060606060606ull, high = 0xF0F0F0F0F0F0F0F0ull;
    int64_t size = stop - p;
    if (size < 2 || size > 8 || FLT_EVAL_METHOD != 0) return 0;
    uint64_t word;
    memcpy(&word, p, 8);
    word = (word ^ 0x3030303030303030ull) << (64 - 8 * size); /* a digit is now its value, the last one is the highest */
    uint64_t other = (word | (word + sixes)) & high;
    if (!other) return 0;
    int point = lowest_bit(other) & 56;
    word ^= (uint64_t)('.' ^ '0') << point;
    if (((word | (word + sixes)) & high) | (word & 0xFFull << point)) return 0;
    uint64_t before = word & ((1ull << point) - 1);
    *value = (double)(int64_t)digits_of(word + (before << 8) - before) / PARTS[point >> 3];
    return 1;
}

/* Any other number in `p` … `stop` that is read exactly, with 24 bytes that can be read. */
static inline int decimal(at_t p, at_t stop, number_t *number) {
    if (short_number(p, &number->value, &number->fraction) == stop) return 1;
    return read_number(p, stop, number) == stop && number->exact && fabs(number->value) <= 1e38;
}

/* The bits of a name of this size and of the blank behind it, in eight bytes; 0 where they are too few. */
static ALWAYS uint64_t with_blank(int64_t size) { return size < 7 ? (1ull << (8 * size + 8)) - 1 : size == 7 ? ~0ull : 0; }

/* Read short lines of six columns with one blank between two, up to the first other one. `width` is that of `want`. */
static ALWAYS void plain_rows(const seen_t *seen, at_t text, const table_t *want, int64_t width, place_t *now) {
    const uint64_t beyond = ~0ull << LONG; /* these bits are never used up */
    at_t p = now->p, begin = seen->begin, last = seen->end - AHEAD;
    int64_t row = now->row, first_row = row, first_line = now->line, room = want->row_room;
    int64_t name_size = now->name_size;
    uint64_t name = 0, same = 0; /* its first bytes with what follows it, and which of their bits count */
    if (now->name) {
        memcpy(&name, now->name, 8);
        same = with_blank(name_size);
    }
    uint8_t *ids = want->ids;
    uint64_t *hashes = want->hashes;
    double *numbers = want->numbers;
    for (; p <= last && row < room; row++) {
        int64_t at = p - begin;
        uint64_t stop = window(seen->breaks, at) & ~beyond, white = window(seen->white, at), word;
        stop &= ~stop + 1; /* the bit of the line break */
        white &= stop | (stop - 1);
        if (!stop || (white & (white << 1 | 1))) break;
        white |= beyond;
        int after[5];
        for (int i = 0; i < 5; i++) {
            after[i] = lowest_bit(white);
            white &= white - 1;
        }
        if (white != (stop | beyond)) break;
        if (seen->high && !is_text(p, p + lowest_bit(stop))) break;
        at_t id = p + after[1] + 1, number = p + after[3] + 1;
        int64_t size = after[2] - after[1] - 1;
        number_t read = {.value = 0};
        if (size > width || !(small_decimal(number, p + after[4], &read.value) || decimal(number, p + after[4], &read))) break;
        memcpy(&word, p, 8);
        if (!same || ((word ^ name) & same)) {
            if (after[0] != name_size || memcmp(p, now->name, (size_t)name_size)) {
                now->row = row;
                now->line = first_line + row - first_row;
                begin_stretch(now, want, text, p, p, after[0]);
                name_size = after[0];
                same = with_blank(name_size);
            }
            name = word;
        }
        hashes[row] = pack_words(id, size, width, ids + row * width);
        numbers[row] = read.value;
        p += lowest_bit(stop) + 1;
    }
    now->p = p;
    now->row = row;
    now->line = first_line + row - first_row;
}

/* Read such lines as far as they go. */
static ALWAYS void read_plain(seen_t *seen, at_t text, at_t end, const table_t *want, place_t *now, int fast) {
    at_t before;
    do {
        before = now->p;
        if (seen->end - now->p < AHEAD && end - now->p >= SEEN) {
            if (fast) see_fast(seen, now->p);
            else see(seen, now->p);
        }
        if (seen->end - now->p < AHEAD || seen->strange) return;
        if (want->width == 8) plain_rows(seen, text, want, 8, now);
        else if (want->width == 16) plain_rows(seen, text, want, 16, now);
        else plain_rows(seen, text, want, want->width, now);
    } while (now->p > before && now->row < want->row_room);
}

FAST static void read_plain_fast(seen_t *seen, at_t text, at_t end, const table_t *want, place_t *now) {
    read_plain(seen, text, end, want, now, 1);
}

/* How many rows there are, or why they are not read. */
int64_t karat_table(at_t text, int64_t size, table_t *asked) {
    if (size < 0 || size >= INT32_MAX) return ODD;
    const table_t want = *asked;
    const int plain = SEES && want.columns == 6 && want.number == 4 &&
                      want.width <= AHEAD - LONG;
    const int fast = is_fast();
    seen_t seen;
    seen.begin = seen.end = text;
    memset(seen.white + SEEN / 8, 0, 8);
    memset(seen.breaks + SEEN / 8, 0, 8);
    place_t now = {.p = text, .name = NULL, .row = 0, .line = 0, .name_size = -1, .stretch = -1, .begun = 0};
    at_t end = text + size;
    int64_t odd_count = 0;
    asked->longest = asked->more_columns = 0;
    for (; now.p < end; now.line++) {
        if (plain && fast) read_plain_fast(&seen, text, end, &want, &now);
        else if (plain) read_plain(&seen, text, end, &want, &now, 0);
        at_t first[6], after[6], next, start = now.p;
        int columns = split(now.p, end, first, after, &next);
        if (!is_text(start, next)) return ODD;
        now.p = next < end ? next + 1 : end;
        if (!columns) continue;
        if (columns < want.columns || (want.exactly && columns != want.columns)) return ODD;
        if (columns > want.columns) {
            /* A carriage return before the last byte: two lines, as old computers wrote them. */
            if (memchr(start, '\r', (size_t)(next - start - 1))) return ODD;
            /* A blank in an id moves the columns behind it. */
            if (!is_rank(first[3], after[3]) || may_be_number(first[5], after[5])) return ODD;
            asked->more_columns += columns > 6;
        }
        if (now.row == want.row_room) return FULL;
        int64_t length = after[0] - first[0];
        if (length != now.name_size || memcmp(now.name, first[0], (size_t)length))
            begin_stretch(&now, &want, text, start, first[0], length);
        length = after[2] - first[2];
        if (length > want.width) {
            asked->longest = length;
            return WIDE;
        }
        want.hashes[now.row] = pack_piece(first[2], length, end, want.width, want.ids + now.row * want.width);
        number_t number = {.value = 0, .exact = 0};
        at_t written = first[want.number], stop = after[want.number];
        int is_short = end - written >= NEAR && short_number(written, &number.value, &number.fraction) == stop;
        if (!is_short && (read_number(written, stop, &number) != stop || !number.exact || fabs(number.value) > 1e38)) {
            if (odd_count == want.odd_room) return FULL;
            int64_t *odd = want.odd + 3 * odd_count++;
            odd[0] = now.row;
            odd[1] = written - text;
            odd[2] = stop - written;
            number.value = 0;
        }
        want.numbers[now.row++] = number.value;
    }
    if (now.stretch >= 0) want.counts[now.stretch] = now.row - now.begun;
    asked->odd_count = odd_count;
    asked->stretches = now.stretch + 1;
    return now.row;
}
