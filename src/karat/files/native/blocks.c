/* The number of letters that Python's difflib matches in two texts: as karat/matching/blocks.py, which says how. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LONG_TEXT = 200 }; /* difflib's autojunk: in such a text, letters that are more than one in 100 only extend runs */

typedef struct {
    int64_t start, stop, from, to;
} region_t;

/* Numbers for the letters of both texts; returns how many, given room for twice as many slots as letters (2^n). */
static int64_t number_letters(const uint32_t *text, int64_t size, int64_t known, uint32_t *letters, int32_t *slots,
                              uint64_t mask, int32_t *numbers) {
    for (int64_t i = 0; i < size; i++) {
        uint64_t slot = (text[i] * 0x9E3779B1u >> 7) & mask;
        while (slots[slot] && letters[slots[slot] - 1] != text[i]) slot = (slot + 1) & mask;
        if (!slots[slot]) {
            letters[known] = text[i];
            slots[slot] = (int32_t)++known;
        }
        numbers[i] = slots[slot] - 1;
    }
    return known;
}

/* The sum of the sizes of difflib's matching blocks; if that is below `least`, any lower number. -1: not computed. */
int64_t karat_matched(const uint32_t *one, int64_t size, const uint32_t *other, int64_t width, int64_t least) {
    if (size < 0 || width < 0 || size > 1 << 24 || width > 1 << 24) return -1;
    uint64_t room = 16;
    while (room < 2 * (uint64_t)(size + width)) room *= 2;
    size_t both = (size_t)(size + width) + 1;
    /* Letters and their table; numbers of the letters; first and next place of a letter; runs that end at a place. */
    size_t wanted = both * sizeof(uint32_t) + room * sizeof(int32_t) + both * sizeof(int32_t) * 3 +
                    ((size_t)width + 1) * sizeof(int32_t) * 3;
    uint8_t *memory = calloc(wanted, 1);
    int64_t most_regions = (size < width ? size : width) + 2;
    region_t *todo = malloc((size_t)most_regions * sizeof *todo);
    if (!memory || !todo) {
        free(memory);
        free(todo);
        return -1;
    }
    uint32_t *letters = (uint32_t *)memory;
    int32_t *slots = (int32_t *)(letters + both), *left = slots + room, *right = left + size, *counts = left + both;
    int32_t *heads = counts + both, *next = heads + both, *before = next + width + 1, *now = before + width + 1;
    int64_t known = number_letters(other, width, 0, letters, slots, room - 1, right);
    number_letters(one, size, known, letters, slots, room - 1, left);
    for (int64_t i = width - 1; i >= 0; i--) { /* heads: place + 1 */
        counts[right[i]]++;
        next[i] = heads[right[i]];
        heads[right[i]] = (int32_t)(i + 1);
    }
    if (width >= LONG_TEXT)
        for (int64_t i = 0; i < known; i++) if (counts[i] > width / 100 + 1) heads[i] = 0;

    int64_t total = 0, open = size < width ? size : width, count = 1;
    todo[0] = (region_t){0, size, 0, width};
    while (count) {
        region_t r = todo[--count];
        int64_t longest = 0, first = r.start, place = r.from;
        open -= r.stop - r.start < r.to - r.from ? r.stop - r.start : r.to - r.from;
        for (int64_t i = r.start; i < r.stop; i++) {
            for (int32_t at = heads[left[i]]; at && at <= r.to; at = next[at - 1]) {
                if (at <= r.from) continue;
                int32_t run = before[at - 1] + 1; /* of the place before; `before` counts from 1 */
                now[at] = run;
                if (run > longest) {
                    longest = run;
                    first = i - run + 1;
                    place = at - run;
                }
            }
            if (i > r.start)
                for (int32_t at = heads[left[i - 1]]; at && at <= r.to; at = next[at - 1]) before[at] = 0;
            int32_t *swapped = before;
            before = now;
            now = swapped;
        }
        if (r.stop > r.start)
            for (int32_t at = heads[left[r.stop - 1]]; at && at <= r.to; at = next[at - 1]) before[at] = 0;
        int64_t end = first + longest, shift = place - first;
        while (longest && first > r.start && first + shift > r.from && left[first - 1] == right[first + shift - 1]) first--;
        while (end < r.stop && end + shift < r.to && left[end] == right[end + shift]) end++;
        if (end == first) continue;
        total += end - first;
        int64_t above = first + shift, below = end + shift;
        if (r.start < first && r.from < above) {
            open += first - r.start < above - r.from ? first - r.start : above - r.from;
            todo[count++] = (region_t){r.start, first, r.from, above};
        }
        if (end < r.stop && below < r.to) {
            open += r.stop - end < r.to - below ? r.stop - end : r.to - below;
            todo[count++] = (region_t){end, r.stop, below, r.to};
        }
        if (total + open < least) break;
    }
    free(memory);
    free(todo);
    return total;
}
