/* Reads values of Parquet pages into plain arrays, and unpacks Snappy. karat/files/parquet_file.py finds the pages. */

#include "hash.h"
#include "text.h"

enum { INT32 = 1, INT64 = 2, FLOAT = 4, DOUBLE = 5 }; /* physical types of numbers */

/* ---- Snappy ---- */

/* Copy what was written `offset` bytes before; both may overlap. `stop`: where the room ends. */
static inline void copy_back(uint8_t *to, int64_t offset, int64_t size, const uint8_t *stop) {
    const uint8_t *from = to - offset;
    if (offset >= 8 && size <= 16 && stop - to >= 16) { /* the second half may be what the first one wrote */
        memcpy(to, from, 8);
        memcpy(to + 8, from + 8, 8);
    } else if (offset >= 8 && stop - to >= size + 8) {
        for (; size > 0; size -= 8, to += 8, from += 8) memcpy(to, from, 8);
    } else {
        while (size--) *to++ = *from++;
    }
}

/* Unpack to exactly `room` bytes; ODD if that is not what it holds. */
int64_t karat_snappy(at_t p, int64_t size, uint8_t *out, int64_t room) {
    at_t end = p + size;
    uint8_t *to = out, *stop = out + room;
    uint64_t total = 0;
    for (int shift = 0;; shift += 7) {
        if (p == end || shift > 28) return ODD;
        total |= (uint64_t)(*p & 127) << shift;
        if (*p++ < 128) break;
    }
    if (total != (uint64_t)room) return ODD;
    while (p < end) {
        uint8_t tag = *p++;
        int64_t length = (tag >> 2) + 1, offset;
        if (!(tag & 3)) { /* bytes as they are */
            if (length > 60) {
                int64_t more = length - 60;
                if (end - p < more) return ODD;
                length = 1;
                for (int64_t i = 0; i < more; i++) length += (int64_t)p[i] << (8 * i);
                p += more;
            }
            if (length > end - p || length > stop - to) return ODD;
            if (length <= 16 && end - p >= 16 && stop - to >= 16) memcpy(to, p, 16);
            else memcpy(to, p, (size_t)length);
            p += length;
        } else {
            int64_t bytes = (tag & 3) == 3 ? 4 : tag & 3;
            if (end - p < bytes) return ODD;
            if (bytes == 1) {
                length = 4 + ((tag >> 2) & 7);
                offset = (int64_t)(tag >> 5) << 8 | p[0];
            } else {
                offset = p[0] | (int64_t)p[1] << 8;
                if (bytes == 4) offset |= (int64_t)p[2] << 16 | (int64_t)p[3] << 24;
            }
            p += bytes;
            if (offset == 0 || offset > to - out || length > stop - to) return ODD;
            copy_back(to, offset, length, stop);
        }
        to += length;
    }
    return to == stop ? room : ODD;
}

/* ---- headers of pages: Thrift, compact protocol ---- */

enum { DEEPEST = 16, NUMBERS = 10 };

static int read_varint(at_t *p, at_t end, uint64_t *value) {
    *value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (*p >= end) return 0;
        uint8_t byte = *(*p)++;
        *value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return 1;
    }
    return 0;
}

static int read_struct(at_t *p, at_t end, int64_t *numbers, int64_t *inner, int depth);

/* A value of this type; `number` is set if it is a whole number. */
static int read_value(at_t *p, at_t end, int type, int64_t *number, int64_t *inner, int depth) {
    uint64_t value = 0, count;
    switch (type) {
    case 4: case 5: case 6:
        if (!read_varint(p, end, &value)) return 0;
        *number = (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
        return 1;
    case 3: value = 1; break;
    case 7: value = 8; break;
    case 8: if (!read_varint(p, end, &value)) return 0; break;
    case 9: case 10: {
        if (*p >= end) return 0;
        uint8_t head = *(*p)++;
        count = head >> 4;
        if (count == 15 && !read_varint(p, end, &count)) return 0;
        if (count > (uint64_t)(end - *p)) return 0;
        int64_t none;
        while (count--) {
            int kind = head & 15;
            if (!read_value(p, end, kind == 1 || kind == 2 ? 3 : kind, &none, NULL, depth + 1)) return 0;
        }
        return 1;
    }
    case 12: return read_struct(p, end, inner, NULL, depth + 1);
    default: return 0;
    }
    if (value > (uint64_t)(end - *p)) return 0;
    *p += value;
    return 1;
}

/* The first whole numbers and truths of a struct by field, and those of the structs in it. */
static int read_struct(at_t *p, at_t end, int64_t *numbers, int64_t *inner, int depth) {
    int64_t field = 0;
    while (*p < end && depth < DEEPEST) {
        uint8_t head = *(*p)++;
        if (!head) return 1;
        uint64_t value;
        if (head >> 4) field += head >> 4;
        else if (!read_varint(p, end, &value)) return 0;
        else field = (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
        int64_t number = 0, known = field > 0 && field < NUMBERS;
        int type = head & 15;
        if (type == 1 || type == 2) number = type == 1;
        else if (!read_value(p, end, type, &number, known ? inner : NULL, depth)) return 0;
        if (known && numbers && type != 12) numbers[field] = number;
    }
    return 0;
}

/* ---- a page ---- */

typedef struct {
    at_t data;           /* the values of the page */
    int64_t size, at;    /* its bytes, and where the next value or run begins */
    int64_t left;        /* values that were not read yet */
    int64_t type;        /* physical type */
    int64_t bits;        /* of the number of a dictionary entry; -1: values are in the page itself */
    int64_t run, index;  /* values left of a run, and their entry; -1: each has its own, in packed bits */
    int64_t base, bit;   /* where these begin, and the next bit */
    int64_t wide;        /* a text has so many bytes, which is too many */
    /* The dictionary: of texts, where they are, and packed in `width` bytes; or numbers. */
    int64_t entries, width;
    at_t text;
    const uint32_t *firsts, *sizes;
    const uint8_t *packed;
    const uint64_t *hashes;
    const double *numbers;
} column_t;

static inline int64_t entry_at(const column_t *c, int64_t bit) {
    at_t p = c->data + c->base + (bit >> 3);
    int64_t there = c->data + c->size - p;
    uint64_t word = 0;
    if (there >= 8) memcpy(&word, p, 8);
    else if (there > 0) memcpy(&word, p, (size_t)there);
    return (int64_t)((word >> (bit & 7)) & ((1ull << c->bits) - 1));
}

/* Begin the next run of entries; 0 if there is none. */
static int next_run(column_t *c) {
    uint64_t head = 0;
    for (int shift = 0;; shift += 7) {
        if (c->at >= c->size || shift > 28) return 0;
        uint8_t byte = c->data[c->at++];
        head |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) break;
    }
    int64_t count = (int64_t)(head >> 1);
    if (!count) return 0;
    if (head & 1) {
        int64_t bytes = count * c->bits;
        if (bytes > c->size - c->at) return 0;
        c->base = c->at;
        c->bit = 0;
        c->at += bytes;
        c->index = -1;
        c->run = 8 * count;
    } else {
        int64_t bytes = (c->bits + 7) / 8, index = 0;
        if (bytes > c->size - c->at) return 0;
        for (int64_t i = 0; i < bytes; i++) index |= (int64_t)c->data[c->at++] << (8 * i);
        if (index >= c->entries) return 0;
        c->index = index;
        c->run = count;
    }
    if (c->run > c->left) c->run = c->left;
    return 1;
}

/* Up to `count` entries of one run; returns how many, or ODD. If they are all the same, only `*same` is set. */
static int64_t some_entries(column_t *c, int64_t count, int64_t *same, uint32_t *entries) {
    if (!c->run && !next_run(c)) return ODD;
    if (count > c->run) count = c->run;
    *same = c->index;
    if (c->index < 0) {
        int64_t bit = c->bit, most = 0;
        for (int64_t i = 0; i < count; i++, bit += c->bits) {
            int64_t entry = entry_at(c, bit);
            entries[i] = (uint32_t)entry;
            if (entry > most) most = entry;
        }
        if (most >= c->entries) return ODD;
        c->bit = bit;
    }
    c->run -= count;
    c->left -= count;
    return count;
}

enum { TOGETHER = 1024 };

/* Whether a text may be an id as it is. Blanks before it, and what is not UTF-8, are for the plain reader. */
static inline int is_id(at_t p, int64_t size) { return size > 0 && *p > ' ' && is_text(p, p + size); }

/* The next text of a page; its size, or ODD. */
static inline int64_t next_text(const column_t *c) {
    uint32_t size;
    if (c->size - c->at < 4) return ODD;
    memcpy(&size, c->data + c->at, 4);
    return size <= c->size - c->at - 4 ? (int64_t)size : ODD;
}

/* Where the texts of a dictionary are; returns the longest, or ODD. */
int64_t karat_page_texts(at_t data, int64_t size, int64_t count, uint32_t *firsts, uint32_t *sizes) {
    column_t c = {.data = data, .size = size};
    int64_t longest = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t length = next_text(&c);
        if (length == ODD || !is_id(data + c.at + 4, length)) return ODD;
        firsts[i] = (uint32_t)(c.at + 4);
        sizes[i] = (uint32_t)length;
        c.at += 4 + length;
        if (length > longest) longest = length;
    }
    return longest;
}

/* ---- ids ---- */

/* A text of up to 16 bytes, of which 16 can be read, packed; 0 if it is for the plain reader, or not ASCII. */
static inline int pack_short(at_t p, int64_t size, uint8_t *packed, uint64_t *hash) {
    const uint64_t high = 0x8080808080808080ull, ones = 0x0101010101010101ull, spaces = 0x2020202020202020ull;
    uint64_t low, up, keep_low = size >= 8 ? ~0ull : (1ull << (8 * size)) - 1;
    uint64_t keep_up = size >= 16 ? ~0ull : size <= 8 ? 0 : (1ull << (8 * (size - 8))) - 1;
    memcpy(&low, p, 8);
    memcpy(&up, p + 8, 8);
    low &= keep_low;
    up &= keep_up;
    uint64_t a = low | (spaces & ~keep_low), b = up | (spaces & ~keep_up);
    if ((a | (a - ones) | b | (b - ones)) & high || *p <= ' ') return 0;
    memcpy(packed, &low, 8);
    memcpy(packed + 8, &up, 8);
    *hash = finished(mixed(low, 0) + mixed(up, 1));
    return 1;
}

static int64_t ids_of_page(column_t *c, int64_t count, int64_t width, uint8_t *ids, uint64_t *hashes) {
    at_t end = c->data + c->size;
    for (int64_t i = 0; i < count; i++, ids += width) {
        int64_t size = next_text(c);
        at_t p = c->data + c->at + 4;
        if (size == ODD) return ODD;
        if (size > width) {
            c->wide = size;
            return i;
        }
        if (width != 16 || end - p < 16 || !size || !pack_short(p, size, ids, &hashes[i])) {
            if (!is_id(p, size)) return ODD;
            hashes[i] = pack_piece(p, size, end, width, ids);
        }
        c->at += 4 + size;
        c->left--;
    }
    return count;
}

/* The next ids, each in `width` bytes, and their hashes. Returns how many were read, or ODD; `wide` says if it stopped
   before a longer one. */
int64_t karat_page_ids(column_t *c, int64_t count, int64_t width, uint8_t *ids, uint64_t *hashes) {
    uint32_t entries[TOGETHER];
    int64_t done = 0, same;
    if (count > c->left) count = c->left;
    c->wide = 0;
    if (c->bits < 0) return ids_of_page(c, count, width, ids, hashes);
    if (c->width > width) {
        c->wide = c->width;
        return 0;
    }
    size_t size = (size_t)c->width, rest = (size_t)(width - c->width);
    while (done < count) {
        int64_t some = some_entries(c, count - done < TOGETHER ? count - done : TOGETHER, &same, entries);
        if (some == ODD) return ODD;
        for (int64_t i = 0; i < some; i++, done++, ids += width) {
            int64_t entry = same < 0 ? entries[i] : same;
            if (size == 16) memcpy(ids, c->packed + 16 * entry, 16);
            else memcpy(ids, c->packed + c->width * entry, size);
            if (rest) memset(ids + size, 0, rest);
            hashes[done] = c->hashes[entry];
        }
    }
    return done;
}

/* ---- numbers ---- */

static double number_at(at_t p, int64_t type) {
    int32_t whole;
    int64_t wide;
    float single;
    double value;
    switch (type) {
    case INT32: memcpy(&whole, p, 4); return whole;
    case INT64: memcpy(&wide, p, 8); return (double)wide;
    case FLOAT: memcpy(&single, p, 4); return single;
    default: memcpy(&value, p, 8); return value;
    }
}

/* The next numbers. Returns how many were read, or ODD: also if one is not finite. */
int64_t karat_page_numbers(column_t *c, int64_t count, double *numbers) {
    uint32_t entries[TOGETHER];
    int64_t done = 0, same;
    if (count > c->left) count = c->left;
    if (c->bits < 0) {
        int64_t each = c->type == INT32 || c->type == FLOAT ? 4 : 8;
        at_t p = c->data + c->at;
        if ((c->size - c->at) / each < count) return ODD;
        if (c->type == DOUBLE) memcpy(numbers, p, (size_t)(8 * count));
        else for (int64_t i = 0; i < count; i++) numbers[i] = number_at(p + each * i, c->type);
        c->at += each * count;
        c->left -= count;
    } else {
        while (done < count) {
            int64_t some = some_entries(c, count - done < TOGETHER ? count - done : TOGETHER, &same, entries);
            if (some == ODD) return ODD;
            for (int64_t i = 0; i < some; i++) numbers[done++] = c->numbers[same < 0 ? entries[i] : same];
        }
    }
    uint64_t odd = 0, bits;
    for (int64_t i = 0; i < count; i++) { /* adding one to the highest exponent, which is not finite, sets the first bit */
        memcpy(&bits, numbers + i, 8);
        odd |= (bits & 0x7FFFFFFFFFFFFFFFull) + 0x0010000000000000ull;
    }
    return odd >> 63 ? ODD : count;
}

/* ---- queries ---- */

typedef struct {
    int64_t room, name_room;  /* of the arrays */
    int64_t stretches, used;  /* so far: stretches of the same query, and bytes of their names */
    int64_t last;             /* where the name of the last one begins */
    int64_t *counts;
    uint8_t *names;           /* each with a line break behind it */
} stretches_t;

/* Add values of one query; 0: no room, ODD: its name is for the plain reader. */
static int64_t add_values(stretches_t *s, at_t name, int64_t size, int64_t count) {
    if (s->stretches && s->used - s->last - 1 == size && !memcmp(s->names + s->last, name, (size_t)size)) {
        s->counts[s->stretches - 1] += count;
        return 1;
    }
    if (!is_id(name, size) || memchr(name, '\n', (size_t)size)) return ODD;
    if (s->stretches == s->room || s->name_room - s->used <= size) return 0;
    memcpy(s->names + s->used, name, (size_t)size);
    s->names[s->used + size] = '\n';
    s->last = s->used;
    s->used += size + 1;
    s->counts[s->stretches++] = count;
    return 1;
}

/* The next values as stretches of the same text. Returns how many values were read, or ODD; fewer than there are if the
   room is used up. */
int64_t karat_page_stretches(column_t *c, int64_t count, stretches_t *s) {
    int64_t done = 0, before = -1;
    if (count > c->left) count = c->left;
    while (done < count) {
        int64_t size, some = 1, entry = -1;
        at_t name;
        if (c->bits < 0) {
            size = next_text(c);
            if (size == ODD) return ODD;
            name = c->data + c->at + 4;
        } else {
            if (!c->run && !next_run(c)) return ODD;
            entry = c->index < 0 ? entry_at(c, c->bit) : c->index;
            some = c->index < 0 ? 1 : count - done < c->run ? count - done : c->run;
            if (entry >= c->entries) return ODD;
            name = c->text + c->firsts[entry];
            size = c->sizes[entry];
        }
        if (entry >= 0 && entry == before) s->counts[s->stretches - 1] += some;
        else {
            int64_t added = add_values(s, name, size, some);
            if (added == ODD) return ODD;
            if (!added) return done;
        }
        before = entry;
        if (entry < 0) c->at += 4 + size;
        else {
            if (c->index < 0) c->bit += c->bits;
            c->run -= some;
        }
        c->left -= some;
        done += some;
    }
    return done;
}

/* ---- the next page ---- */

/* Whether definition levels of one bit, in runs, are all 1: no value is missing. */
static int none_missing(at_t data, int64_t size, int64_t count) {
    column_t c = {.data = data, .size = size, .bits = 1, .left = count, .entries = 2};
    while (c.left > 0) {
        if (!next_run(&c) || c.index == 0) return 0;
        if (c.index < 0)
            for (int64_t i = 0; i < c.run; i++)
                if (!entry_at(&c, i)) return 0;
        c.left -= c.run;
        c.run = 0;
    }
    return 1;
}

enum { DATA = 0, DICTIONARY = 2, DATA_2 = 3 };  /* kinds of pages */
enum { PLAIN = 0, OLD_INDEXED = 2, RUNS = 3, INDEXED = 8 }; /* how values are written */
enum { UNPACKED = 0, SNAPPY = 1 };

typedef struct {
    int64_t optional, codec, values; /* of the column: may values be missing, and how many are left of the chunk */
    uint8_t *room;                   /* for what is unpacked */
    int64_t room_size;
    /* What the header says. */
    int64_t kind, unpacked, packed, count, written, levels, is_packed, used;
} page_t;

/* Take the values of a page, which are unpacked: of `levels` bytes in front of it, or in it if this is -1. */
static int take_page(column_t *c, page_t *page, at_t levels, at_t data, int64_t size) {
    int indexed = page->written == INDEXED || page->written == OLD_INDEXED;
    if (page->optional && page->levels < 0) {
        uint32_t bytes;
        if (size < 4) return 0;
        memcpy(&bytes, data, 4);
        if (bytes > size - 4 || !none_missing(data + 4, bytes, page->count)) return 0;
        data += 4 + (int64_t)bytes;
        size -= 4 + (int64_t)bytes;
    } else if (page->optional && !none_missing(levels, page->levels, page->count)) return 0;
    if (page->count <= 0 || page->count > page->values || (!indexed && page->written != PLAIN)) return 0;
    if (indexed && (!size || data[0] > 32 || !c->entries)) return 0;
    c->data = data;
    c->size = size;
    c->at = indexed;
    c->left = page->count;
    c->bits = indexed ? data[0] : -1;
    c->run = 0;
    page->values -= page->count;
    return 1;
}

/* Take a page that Python has unpacked. */
int64_t karat_page_take(column_t *c, page_t *page, at_t levels, at_t data, int64_t size) {
    return take_page(c, page, levels, data, size) ? 0 : ODD;
}

/* Read the next header and, if it is of values that are written plainly or as Snappy, take its page. Returns the bytes of
   both, or of the header alone if the page is for Python; FULL: it needs more room, or bytes (`used` says how many); ODD. */
int64_t karat_page_next(column_t *c, at_t p, int64_t size, page_t *page) {
    int64_t numbers[NUMBERS], inner[NUMBERS];
    for (int i = 0; i < NUMBERS; i++) numbers[i] = inner[i] = -1;
    at_t at = p;
    page->used = page->unpacked = 0;
    if (!read_struct(&at, p + size, numbers, inner, 0)) return FULL;
    page->kind = numbers[1];
    page->unpacked = numbers[2];
    page->packed = numbers[3];
    page->count = inner[1];
    page->written = inner[page->kind == DATA_2 ? 4 : 2];
    page->levels = page->kind == DATA_2 ? inner[5] : -1;
    page->is_packed = page->kind != DATA_2 || inner[7];
    if (page->packed < 0 || page->unpacked < 0 || page->packed > 1 << 30 || page->unpacked > 1 << 30) return ODD;
    if (page->kind == DATA_2 && (inner[2] || inner[6] || page->levels < 0 || page->levels > page->packed ||
                                 page->levels > page->unpacked)) return ODD;
    if (page->kind == DATA && page->optional && inner[3] != RUNS) return ODD;
    if (page->kind != DATA && page->kind != DICTIONARY && page->kind != DATA_2) return ODD;
    page->used = at - p + page->packed;
    if (page->used > size) return FULL;
    if (page->kind == DICTIONARY || (page->is_packed && page->codec > SNAPPY)) return at - p;
    int64_t before = page->levels > 0 ? page->levels : 0, rest = page->packed - before;
    at_t data = at + before;
    if (page->is_packed && page->codec == SNAPPY && page->unpacked > before) {
        if (page->unpacked > page->room_size) return FULL;
        if (karat_snappy(data, rest, page->room, page->unpacked - before) < 0) return ODD;
        data = page->room;
        rest = page->unpacked - before;
    } else if (rest != page->unpacked - before) return ODD;
    return take_page(c, page, at, data, rest) ? page->used : ODD;
}
