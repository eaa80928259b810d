/* Hashes of ids: the same as in karat/data/packed_ids.py. */

#ifndef KARAT_HASH_H
#define KARAT_HASH_H

#include <stdint.h>
#include <string.h>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "only for little-endian machines; others use the plain reader"
#endif

#define SPREAD 0x9E3779B97F4A7C15ull

static inline uint64_t mixed(uint64_t word, uint64_t place) {
    word *= SPREAD + 2 * place;
    return word ^ (word >> 32);
}

static inline uint64_t finished(uint64_t total) {
    total *= SPREAD;
    return total ^ (total >> 29);
}

/* Copy a piece into `width` bytes, filled up with NUL, and return its hash. `end`: where the text ends. */
static inline uint64_t pack_words(const uint8_t *piece, int64_t size, int64_t width, uint8_t *packed) {
    uint64_t total = 0, word;
    for (int64_t at = 0; at < width; at += 8) { /* whole words are read, and masked */
        int64_t left = size - at;
        memcpy(&word, piece + at, 8);
        if (left < 8) word &= left <= 0 ? 0 : (1ull << (8 * left)) - 1;
        memcpy(packed + at, &word, 8);
        total += mixed(word, (uint64_t)at / 8);
    }
    return finished(total);
}

static inline uint64_t pack_piece(const uint8_t *piece, int64_t size, const uint8_t *end, int64_t width, uint8_t *packed) {
    uint64_t total = 0, word;
    if (end - piece >= width)
        return width == 8    ? pack_words(piece, size, 8, packed)
               : width == 16 ? pack_words(piece, size, 16, packed)
                             : pack_words(piece, size, width, packed);
    memset(packed, 0, (size_t)width);
    memcpy(packed, piece, (size_t)size);
    for (int64_t at = 0; at < width; at += 8) {
        memcpy(&word, packed + at, 8);
        total += mixed(word, (uint64_t)at / 8);
    }
    return finished(total);
}

#endif
