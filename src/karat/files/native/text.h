/* Bytes and numbers of text: what the readers of JSON Lines (json.c) and TREC files (trec.c) share.

   Nothing here knows Python: numbers and spans of bytes come out, and every function may be called from several threads.
   A block that is not fully understood is refused with a code; the plain reader then reads it, so what is accepted
   here must mean exactly what it means there, and errors are always told by the plain reader.
   No function reads outside of the bytes it was given. */

#ifndef KARAT_TEXT_H
#define KARAT_TEXT_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

#if defined(__GNUC__)
#define ALWAYS inline __attribute__((always_inline))
#else
#define ALWAYS inline
#endif

/* Functions with this may be compiled a second time for most processors since 2013. */
#if defined(__x86_64__) && defined(__GNUC__)
#define FAST __attribute__((target("avx2,bmi,bmi2")))

static inline int is_fast(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}
#else
#define FAST

static inline int is_fast(void) { return 0; }
#endif

typedef const uint8_t *at_t;

/* Why a block is not read. */
enum { ODD = -1, UNKNOWN = -2, FULL = -3, WIDE = -4, MANY = -5 };

enum { NEAR = 64 }; /* with so many bytes left, a short value can be read without looking for the end */

/* ---- bytes ---- */

/* Whether all of it is UTF-8, without a NUL. */
static inline int is_text(at_t p, at_t end) {
    while (p < end) {
#if defined(__SSE2__)
        const __m128i zero = _mm_setzero_si128();
        while (end - p >= 32) {
            __m128i x = _mm_loadu_si128((const __m128i *)p), y = _mm_loadu_si128((const __m128i *)(p + 16));
            __m128i odd = _mm_or_si128(_mm_or_si128(x, y), _mm_cmpeq_epi8(_mm_min_epu8(x, y), zero));
            if (_mm_movemask_epi8(odd)) break;
            p += 32;
        }
#endif
        while (end - p >= 8) {
            uint64_t word;
            memcpy(&word, p, 8);
            if ((word | (word - 0x0101010101010101ull)) & 0x8080808080808080ull) break; /* not ASCII, or perhaps NUL */
            p += 8;
        }
        if (p == end) break;
        uint8_t c = *p++;
        if (!c) return 0;
        if (c < 0x80) continue;
        int more;
        uint8_t low = 0x80, high = 0xBF; /* of the second byte: no overlong form, no surrogate, nothing above U+10FFFF */
        if (c >= 0xC2 && c <= 0xDF) more = 1;
        else if (c >= 0xE0 && c <= 0xEF) { more = 2; if (c == 0xE0) low = 0xA0; if (c == 0xED) high = 0x9F; }
        else if (c >= 0xF0 && c <= 0xF4) { more = 3; if (c == 0xF0) low = 0x90; if (c == 0xF4) high = 0x8F; }
        else return 0;
        if (end - p < more || *p < low || *p > high) return 0;
        for (int i = 1; i < more; i++) if (p[i] < 0x80 || p[i] > 0xBF) return 0;
        p += more;
    }
    return 1;
}

static inline int lowest_bit(uint64_t mask) {
#if defined(__GNUC__)
    return __builtin_ctzll(mask);
#else
    int n = 0;
    while (!(mask & 1)) { mask >>= 1; n++; }
    return n;
#endif
}

/* The first quote, backslash or control character; `end` if there is none. */
static inline at_t text_end(at_t p, at_t end) {
#if defined(__SSE2__)
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\'), control = _mm_set1_epi8(0x1F);
    while (end - p >= 16) {
        __m128i x = _mm_loadu_si128((const __m128i *)p);
        __m128i found = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(x, quote), _mm_cmpeq_epi8(x, slash)),
                                     _mm_cmpeq_epi8(_mm_min_epu8(x, control), x));
        int mask = _mm_movemask_epi8(found);
        if (mask) return p + lowest_bit((uint64_t)mask);
        p += 16;
    }
#endif
    while (p < end && *p != '"' && *p != '\\' && *p > 0x1F) p++;
    return p;
}

static inline at_t blank(at_t p, at_t end) { /* a line break ends a line and is no blank */
    while (p < end && *p <= ' ' && (*p == ' ' || *p == '\t' || *p == '\r')) p++;
    return p;
}

static inline int is_digit(uint8_t c) { return (uint8_t)(c - '0') < 10; }

/* ---- numbers ---- */

static const double TENS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

typedef struct {
    double value;
    int exact;    /* 0: a number, but for the plain reader to read */
    int fraction; /* has a point or an exponent */
    int digits;
    int exponent; /* digits of the exponent */
} number_t;

/* digits / 10^decimals, rounded once: both are exact doubles, or the division is done in whole numbers. */
static inline int divided(uint64_t digits, int decimals, double *value) {
#if FLT_EVAL_METHOD == 0
    if (decimals >= 0 && decimals <= 22 && digits <= (1ull << 53)) {
        *value = (double)digits / TENS[decimals];
        return 1;
    }
#endif
#if defined(__SIZEOF_INT128__)
    if (decimals >= 0 && decimals <= 19 && digits > 0) {
        uint64_t ten = 1;
        for (int i = 0; i < decimals; i++) ten *= 10;
        int shift = 64 + __builtin_clzll(digits);
        unsigned __int128 dividend = (unsigned __int128)digits << shift;
        unsigned __int128 quotient = dividend / ten;
        int sticky = dividend % ten != 0;
        uint64_t top = (uint64_t)(quotient >> 64);
        int bits = top ? 128 - __builtin_clzll(top) : 64 - __builtin_clzll((uint64_t)quotient);
        int drop = bits - 53; /* at least 10: the dividend has 128 bits and the divisor at most 64 */
        unsigned __int128 half = (unsigned __int128)1 << (drop - 1), rest = quotient & ((half << 1) - 1);
        uint64_t kept = (uint64_t)(quotient >> drop);
        if (rest > half || (rest == half && (sticky || (kept & 1)))) kept++;
        *value = ldexp((double)kept, drop - shift);
        return 1;
    }
#endif
    return 0;
}

/* The value of up to eight digits in the lowest bytes of a word, each already from 0 to 9. */
static inline uint64_t digits_of(uint64_t word) {
    word = word * 10 + (word >> 8);
    return (((word & 0x000000FF000000FFull) * 0x000F424000000064ull) + (((word >> 16) & 0x000000FF000000FFull) * 0x0000271000000001ull)) >> 32;
}

static const uint64_t WHOLE_TENS[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};

/* Up to seven digits that begin at p, of which eight bytes can be read; returns how many, 8 for more. */
static inline int short_digits(at_t p, uint64_t *value) {
    uint64_t word, other;
    memcpy(&word, p, 8);
    word ^= 0x3030303030303030ull; /* a digit is now its value */
    other = (word | (word + 0x0606060606060606ull)) & 0xF0F0F0F0F0F0F0F0ull; /* other bytes, and perhaps some behind them */
    int count = other ? lowest_bit(other) >> 3 : 8;
    *value = count ? digits_of(word << (64 - 8 * count)) : 0;
    return count;
}

/* A number of up to seven bytes, digits and perhaps a point between them, of which eight bytes can be read; NULL for any
   other. An exponent is not looked for: what follows must be checked. */
static ALWAYS at_t quick_number(at_t p, double *value, int *fraction) {
    const uint64_t sixes = 0x0606060606060606ull, high = 0xF0F0F0F0F0F0F0F0ull;
    uint64_t word, other;
    memcpy(&word, p, 8);
    word ^= 0x3030303030303030ull; /* a digit is now its value */
    other = (word | (word + sixes)) & high;
    int point = other ? lowest_bit(other) & 56 : 0, stop = point;
    if (!point || (point > 8 && !(word & 0xFF)) || FLT_EVAL_METHOD != 0) return NULL;
    *fraction = (word >> point & 0xFF) == ('.' ^ '0');
    if (!*fraction) {
        *value = (double)(int64_t)(point == 8 ? word & 0xFF : digits_of(word << (64 - point)));
        return p + (stop >> 3);
    }
    word ^= (uint64_t)('.' ^ '0') << point;
    other = (word | (word + sixes)) & high;
    if (!other) return NULL;
    stop = lowest_bit(other) & 56;
    if (stop < point + 16) return NULL;
    uint64_t before = word & ((1ull << point) - 1);
    *value = (double)(int64_t)digits_of((word + (before << 8) - before) << (64 - stop)) / TENS[(stop - point) / 8 - 1];
    return p + (stop >> 3);
}

/* A number with at most seven digits before and after its point, of which 24 bytes can be read; NULL for any other. */
static inline at_t short_number(at_t p, double *value, int *fraction) {
    int negative = *p == '-';
    p += negative;
    at_t first = p;
    uint64_t whole = (uint64_t)(*p - '0'), more;
    if (!is_digit(*p++)) return NULL;
    while (is_digit(*p)) {
        whole = whole * 10 + (uint64_t)(*p++ - '0');
        if (p - first > 7) return NULL;
    }
    if (*first == '0' && p - first > 1) return NULL;
    *value = (double)whole;
    *fraction = *p == '.';
    if (*fraction) {
        int count = short_digits(p + 1, &more);
        if (count == 0 || count == 8 || FLT_EVAL_METHOD != 0) return NULL;
        p += count + 1;
        whole = whole * WHOLE_TENS[count] + more;
        *value = (double)whole / TENS[count];
    }
    if ((*p | 0x20) == 'e' || (negative && !whole)) return NULL;
    if (negative) *value = -*value;
    return p;
}

/* A number as JSON writes it; NULL for anything else. */
static inline at_t read_number(at_t p, at_t end, number_t *number) {
    at_t first, point;
    int negative = p < end && *p == '-', decimals = 0, digits = 0, zeros = 1;
    uint64_t whole = 0;
    first = p += negative;
    at_t near = end - p > 16 ? p + 16 : end; /* most numbers are short: 15 digits and a point */
    while (p < near && is_digit(*p)) whole = whole * 10 + (uint64_t)(*p++ - '0');
    point = p;
    if (p < near && *p == '.')
        for (p++; p < near && is_digit(*p); p++) whole = whole * 10 + (uint64_t)(*p - '0');
    if (point > first && p != point + 1 && (p < near || p == end) && (p == end || (*p | 0x20) != 'e') &&
        (*first != '0' || point - first == 1) && whole && FLT_EVAL_METHOD == 0) {
        number->value = (double)whole / TENS[p > point ? p - point - 1 : 0];
        if (negative) number->value = -number->value;
        number->exact = 1;
        number->fraction = p > point;
        number->digits = (int)(p - first);
        number->exponent = 0;
        return p;
    }
    p = first;
    whole = 0;
    while (p < end && is_digit(*p)) {
        if (digits < 19) whole = whole * 10 + (uint64_t)(*p - '0');
        if (*p != '0') zeros = 0;
        if (!zeros) digits++;
        p++;
    }
    if (p == first || (*first == '0' && p - first > 1)) return NULL;
    number->fraction = 0;
    number->exponent = 0;
    if (p < end && *p == '.') {
        at_t point = ++p;
        while (p < end && is_digit(*p)) {
            if (digits < 19) { whole = whole * 10 + (uint64_t)(*p - '0'); decimals++; }
            if (*p != '0') zeros = 0;
            if (!zeros) digits++;
            p++;
        }
        if (p == point) return NULL;
        number->fraction = 1;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < end && (*p == '+' || *p == '-')) p++;
        at_t exponent = p;
        while (p < end && is_digit(*p)) p++;
        if (p == exponent) return NULL;
        number->exponent = p - exponent < 100 ? (int)(p - exponent) : 100;
        number->fraction = 1;
    }
    number->digits = digits;
    number->exact = digits <= 19 && !number->exponent && !(zeros && negative) && divided(whole, decimals, &number->value);
    if (number->exact && negative) number->value = -number->value;
    return p;
}

#endif
