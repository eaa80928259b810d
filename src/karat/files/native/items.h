/* Values of JSON, and lists of objects as columns: what json.c reads of a line. */

#ifndef KARAT_ITEMS_H
#define KARAT_ITEMS_H

#include "hash.h"
#include "text.h"

/* What to do with a field of an object in a list. */
enum { TEXT = 0, NUMBER = 1, WHOLE = 2, OTHER = 3, NOTED = 4, ANY = 5, NEVER_NULL = 16 };

enum { MAX_COLUMNS = 16, MAX_PLACES = 64, MAX_DEPTH = 64 };

/* ---- values ---- */

/* After the closing quote of a text that begins at p, behind its opening one; NULL for what needs a closer look. */
static at_t skip_text(at_t p, at_t end, int *escaped) {
    for (;;) {
        p = text_end(p, end);
        if (p == end || *p < 0x20) return NULL;
        if (*p == '"') return p + 1;
        *escaped = 1;
        if (end - p < 2) return NULL;
        if (p[1] == 'u') {
            if (end - p < 6) return NULL;
            for (int i = 2; i < 6; i++) {
                uint8_t c = p[i] | 0x20;
                if (!is_digit(p[i]) && !(c >= 'a' && c <= 'f')) return NULL;
            }
            if ((p[2] | 0x20) == 'd' && p[3] >= '8') return NULL; /* half a character, perhaps */
            p += 6;
        } else {
            if (!p[1] || !strchr("\"\\/bfnrt", p[1])) return NULL;
            p += 2;
        }
    }
}

static at_t skip_word(at_t p, at_t end, const char *word) {
    int64_t size = (int64_t)strlen(word);
    return end - p >= size && !memcmp(p, word, (size_t)size) ? p + size : NULL;
}

static at_t skip_value(at_t p, at_t end, int depth) {
    int escaped = 0;
    if (p == end || depth > MAX_DEPTH) return NULL;
    switch (*p) {
    case '"': return skip_text(p + 1, end, &escaped);
    case 't': return skip_word(p, end, "true");
    case 'f': return skip_word(p, end, "false");
    case 'n': return skip_word(p, end, "null");
    case '[':
    case '{': {
        int object = *p == '{';
        uint8_t close = object ? '}' : ']';
        p = blank(p + 1, end);
        if (p < end && *p == close) return p + 1;
        for (;;) {
            if (object) {
                if (p == end || *p != '"' || !(p = skip_text(p + 1, end, &escaped))) return NULL;
                p = blank(p, end);
                if (p == end || *p != ':') return NULL;
                p = blank(p + 1, end);
            }
            if (!(p = skip_value(p, end, depth + 1))) return NULL;
            p = blank(p, end);
            if (p == end) return NULL;
            if (*p == close) return p + 1;
            if (*p != ',') return NULL;
            p = blank(p + 1, end);
        }
    }
    default: {
        number_t number;
        p = read_number(p, end, &number);
        return p && number.exponent <= 2 && number.digits <= 200 ? p : NULL; /* else perhaps beyond a double */
    }
    }
}

/* Names of fields, and which stood at each place of the last object: mostly it is the same again. */
typedef struct {
    at_t names;
    const int32_t *ends;
    int32_t count;
    at_t met[MAX_PLACES];
    int64_t sizes[MAX_PLACES];
    int slots[MAX_PLACES];
    int places;
} keys_t;

/* Behind the closing quote of a key whose opening one is at p. `slot`: which it is, -1 where it is not known. */
static at_t read_key(keys_t *keys, int place, at_t p, at_t end, int *slot) {
    if (p == end || *p != '"') return NULL;
    p++;
    if (place < keys->places) {
        int64_t size = keys->sizes[place];
        if (end - p > size && p[size] == '"' && !memcmp(p, keys->met[place], (size_t)size)) {
            *slot = keys->slots[place];
            return p + size + 1;
        }
    }
    at_t close = text_end(p, end);
    if (close == end || *close != '"') return NULL;
    int64_t size = close - p;
    *slot = -1;
    for (int32_t i = 0, begin = 0; i < keys->count; begin = keys->ends[i++])
        if (keys->ends[i] - begin == size && !memcmp(keys->names + begin, p, (size_t)size)) *slot = i;
    if (place < MAX_PLACES && place <= keys->places) {
        keys->met[place] = p;
        keys->sizes[place] = size;
        keys->slots[place] = *slot;
        if (place == keys->places) keys->places++;
    }
    return close + 1;
}

/* What stood between the values of the last object: mostly it is the same again. A text begins and ends inside its
   quotes; null, true and false are no values here. */
enum { MAX_VALUES = 24, GAP_SIZE = 32 };
enum { NO_COLUMN = -1 };

typedef struct {
    uint8_t gap[GAP_SIZE]; /* what is before the value */
    uint32_t compared;     /* a bit for each byte of the gap */
    int size;              /* of the gap */
    int column; /* NO_COLUMN: not wanted */
    int is_text, whole;
    int as_written; /* the span is that of the JSON value, with the quotes of a text */
    int guess;      /* the length of the last text, */
    uint32_t until; /* and a bit for each of its bytes and for what ends it */
    int width; /* bytes of a packed text */
    double *numbers; /* where it goes; NULL: nowhere. An id has `firsts`, and `packed` if it is packed. */
    uint32_t *firsts, *sizes;
    uint8_t *packed;
    uint64_t *hashes;
} value_t;

typedef struct {
    int count; /* values, between count + 1 gaps, the last of which is that of a value that is none; -1: none is known */
    value_t values[MAX_VALUES + 1];
    int lacking; /* columns that other objects of the list have */
    int lacked[MAX_COLUMNS];
} shape_t;

/* The columns of one list: column c of object i is numbers[c * room + i], or the span firsts / sizes[c * room + i], or, if
   widths[c] is not 0, the bytes from packed[c] + i * widths[c] on and hashes[c][i]. */
typedef struct {
    int64_t count, room;
    double *numbers;
    uint32_t *firsts, *sizes;
    const int64_t *widths;
    uint8_t *const *packed;
    uint64_t *const *hashes;
    int64_t *present, *longest; /* by column */
    shape_t shape;
    int64_t alike; /* objects of this shape that `present` does not count yet */
} list_t;

/* An object while it is read, to become a shape. */
typedef struct {
    int count; /* -1: it cannot */
    at_t from, starts[MAX_VALUES], ends[MAX_VALUES];
    int columns[MAX_VALUES], is_text[MAX_VALUES];
} draft_t;

typedef struct {
    at_t text, end;
    keys_t keys;
    const int8_t *kinds;
    int32_t bare; /* the column of an id without an object */
    int64_t *odd; /* list, column, object, first, size: numbers for the plain reader */
    int64_t odd_count, odd_room;
    int64_t noted; /* whether an object has a field that is only noted */
} items_t;

/* Whether there is room for it. */
static int put_text(items_t *items, list_t *list, int column, at_t first, at_t end) {
    int64_t size = end - first, row = list->count, width = list->widths[column];
    list->present[column]++;
    if (size > list->longest[column]) list->longest[column] = size;
    if (!width) {
        list->firsts[column * list->room + row] = (uint32_t)(first - items->text);
        list->sizes[column * list->room + row] = (uint32_t)size;
    } else {
        if (size > width) return 0;
        list->hashes[column][row] = pack_piece(first, size, items->end, width, list->packed[column] + row * width);
    }
    return 1;
}

/* A text without escapes, or a whole number as it is written. */
static int64_t read_id(items_t *items, list_t *list, int column, at_t *where) {
    at_t p = *where;
    if (p == items->end) return ODD;
    if (*p == '"') {
        at_t close = text_end(p + 1, items->end);
        if (close == items->end || *close != '"') return ODD;
        *where = close + 1;
        return put_text(items, list, column, p + 1, close) ? 0 : WIDE;
    }
    number_t number;
    at_t after = read_number(p, items->end, &number);
    if (!after || number.fraction || number.digits > 18 || !number.exact) return ODD;
    *where = after;
    return put_text(items, list, column, p, after) ? 0 : WIDE;
}

/* The value of a wanted field at p. `given`: whether there is one, and not null. */
static int64_t read_wanted(items_t *items, list_t *list, int which, int column, at_t *where, int *given) {
    at_t p = *where;
    int kind = items->kinds[column] & ~NEVER_NULL;
    *given = 1;
    if (kind == OTHER) return ODD;
    if (kind == NOTED) {
        *given = 0;
        items->noted = 1;
        if (!(*where = skip_value(p, items->end, 1))) return ODD;
        return 0;
    }
    if (kind == ANY && *p != 'n') {
        at_t first = p;
        if (!(p = skip_value(p, items->end, 1))) return ODD;
        list->firsts[column * list->room + list->count] = (uint32_t)(first - items->text);
        list->sizes[column * list->room + list->count] = (uint32_t)(p - first);
        list->present[column]++;
    } else if (*p == 'n') {
        *given = 0;
        if ((items->kinds[column] & NEVER_NULL) || !(p = skip_word(p, items->end, "null"))) return ODD;
    } else if (kind == TEXT) {
        int64_t code = read_id(items, list, column, &p);
        if (code) return code;
    } else {
        number_t number;
        at_t first = p;
        if (!(p = read_number(p, items->end, &number))) return ODD;
        if (kind == WHOLE && (number.fraction || number.digits > 15)) return ODD;
        if (!number.exact) {
            if (items->odd_count == items->odd_room) return FULL;
            int64_t *odd = items->odd + 5 * items->odd_count++;
            odd[0] = which;
            odd[1] = column;
            odd[2] = list->count;
            odd[3] = first - items->text;
            odd[4] = p - first;
            number.value = 0;
        }
        list->numbers[column * list->room + list->count] = number.value;
        list->present[column]++;
    }
    *where = p;
    return 0;
}

/* A value of the object that is read, and where it ends. */
static void put_value(draft_t *draft, int column, at_t first, at_t end) {
    int is_text = *first == '"';
    if (*first == 'n' || *first == 't' || *first == 'f' || draft->count < 0) return;
    if (draft->count == MAX_VALUES || *first == '{' || *first == '[') {
        draft->count = -1;
        return;
    }
    draft->columns[draft->count] = column;
    draft->is_text[draft->count] = is_text;
    draft->starts[draft->count] = first + is_text;
    draft->ends[draft->count++] = end - is_text;
}

static void put_gap(value_t *value, at_t from, int64_t size) {
    memcpy(value->gap, from, (size_t)size);
    value->size = (int)size;
    value->compared = size < 32 ? (1u << size) - 1 : ~0u;
}

/* Where a value goes that is not its gap. */
static void put_action(const items_t *items, list_t *list, value_t *value, int column, int is_text) {
    value->column = column;
    value->is_text = is_text;
    value->until = 1;
    if (column == NO_COLUMN) return;
    int kind = items->kinds[column] & ~NEVER_NULL;
    value->whole = kind != NUMBER && kind != ANY;
    if (kind != TEXT && kind != ANY) {
        value->numbers = list->numbers + column * list->room;
        return;
    }
    value->firsts = list->firsts + column * list->room;
    value->sizes = list->sizes + column * list->room;
    value->as_written = kind == ANY;
    value->width = kind == ANY ? 0 : (int)list->widths[column];
    value->packed = value->width ? list->packed[column] : NULL;
    value->hashes = list->hashes[column];
}

/* Remember the shape of an object that ends at `end`. */
static void put_shape(const items_t *items, list_t *list, const draft_t *draft, at_t end, uint32_t given) {
    shape_t *shape = &list->shape;
    at_t from = draft->from;
    shape->count = -1;
    for (int i = 0; i <= draft->count; i++) {
        int64_t size = (i < draft->count ? draft->starts[i] : end) - from;
        if (size > GAP_SIZE) return;
        value_t *value = shape->values + i;
        memset(value, 0, sizeof *value);
        put_gap(value, from, size);
        if (i == draft->count) break;
        put_action(items, list, value, draft->columns[i], draft->is_text[i]);
        from = draft->ends[i];
    }
    shape->count = draft->count;
    shape->lacking = 0;
    for (int column = 0; column < items->keys.count; column++)
        if (!(given >> column & 1) && list->present[column]) shape->lacked[shape->lacking++] = column;
}

/* Whether the gap of a value is at p, of which GAP_SIZE bytes can be read. */
static ALWAYS int is_gap(at_t p, const value_t *value) {
#if defined(__SSE2__)
    __m128i first = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)p), _mm_loadu_si128((const __m128i *)value->gap));
    __m128i second = _mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)(p + 16)), _mm_loadu_si128((const __m128i *)(value->gap + 16)));
    uint32_t same = (uint32_t)_mm_movemask_epi8(first) | (uint32_t)_mm_movemask_epi8(second) << 16;
    return !(value->compared & ~same);
#else
    return !memcmp(p, value->gap, (size_t)value->size);
#endif
}

static inline void put_missing(items_t *items, list_t *list, int column, int64_t first, int64_t end) {
    int64_t at = column * list->room, width = list->widths[column];
    int kind = items->kinds[column] & ~NEVER_NULL;
    if (kind == TEXT && width) {
        memset(list->packed[column] + first * width, 0, (size_t)((end - first) * width));
        memset(list->hashes[column] + first, 0, (size_t)(end - first) * sizeof(uint64_t)); /* the hash of an empty id */
    } else if (kind == TEXT || kind == ANY)
        for (int64_t i = first; i < end; i++) list->firsts[at + i] = list->sizes[at + i] = 0;
    else
        for (int64_t i = first; i < end; i++) list->numbers[at + i] = NAN;
}

/* Where the text at p ends, of which 16 bytes can be read. */
static ALWAYS at_t text_end_near(at_t p, at_t end, value_t *value) {
#if defined(__SSE2__)
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\'), control = _mm_set1_epi8(0x1F);
    __m128i x = _mm_loadu_si128((const __m128i *)p);
    __m128i found = _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(x, quote), _mm_cmpeq_epi8(x, slash)),
                                 _mm_cmpeq_epi8(_mm_min_epu8(x, control), x));
    uint32_t mask = (uint32_t)_mm_movemask_epi8(found);
    if ((mask & value->until) == value->until - (value->until >> 1)) return p + value->guess; /* without waiting for the mask */
    if (mask) {
        value->guess = lowest_bit(mask);
        value->until = (2u << value->guess) - 1;
        return p + value->guess;
    }
#endif
    return text_end(p, end);
}

/* Behind an object at p of the same shape as the last one; NULL where it has another. */
static ALWAYS at_t read_alike(items_t *items, list_t *list, at_t p) {
    shape_t *shape = &list->shape;
    at_t end = items->end, first;
    int64_t row = list->count;
    value_t *value = shape->values, *last = value + shape->count;
    for (;; value++) {
        if (end - p < NEAR || !is_gap(p, value)) return NULL;
        first = p += value->size;
        if (value == last) break;
        if (!value->is_text) {
            double found;
            int fraction;
            p = quick_number(first, &found, &fraction);
            if (!p) {
                number_t number = {.exact = 1};
                p = short_number(first, &number.value, &number.fraction);
                if (!p) p = read_number(first, end, &number);
                if (!p || !number.exact || (value->whole && p - first > 15)) return NULL;
                found = number.value;
                fraction = number.fraction;
            }
            if (value->whole & fraction) return NULL;
            if (value->numbers) {
                value->numbers[row] = found;
                continue;
            }
            if (!value->firsts) continue;
        } else {
            p = text_end_near(p, end, value);
        }
        if (value->packed) {
            if (p - first > value->width) return NULL;
            value->hashes[row] = pack_piece(first, p - first, end, value->width, value->packed + row * value->width);
            continue;
        }
        if (value->is_text && (!value->firsts || value->as_written) && p < end && *p == '\\') {
            int escaped = 0;
            if (!(p = skip_text(p, end, &escaped))) return NULL;
            p--;
        }
        if (value->as_written) {
            value->firsts[row] = (uint32_t)(first - value->is_text - items->text);
            value->sizes[row] = (uint32_t)(p - first + 2 * value->is_text);
        } else if (value->firsts) {
            value->firsts[row] = (uint32_t)(first - items->text);
            value->sizes[row] = (uint32_t)(p - first);
            if (p - first > list->longest[value->column]) list->longest[value->column] = p - first;
        }
    }
    for (int i = 0; i < shape->lacking; i++) put_missing(items, list, shape->lacked[i], row, row + 1);
    list->alike++;
    return p;
}

/* Count the objects of the last shape. */
static void count_alike(list_t *list) {
    for (int i = 0; i < list->shape.count; i++)
        if (list->shape.values[i].column != NO_COLUMN) list->present[list->shape.values[i].column] += list->alike;
    list->alike = 0;
}

static int64_t read_object(items_t *items, list_t *list, int which, at_t *where, uint32_t *given, draft_t *draft) {
    at_t p = blank(*where + 1, items->end), end = items->end;
    uint32_t named = 0;
    int64_t code;
    draft->count = 0;
    draft->from = *where;
    if (p < end && *p == '}') {
        *where = p + 1;
        return 0;
    }
    for (int place = 0;; place++) {
        int column, there;
        if (!(p = read_key(&items->keys, place, p, end, &column))) return ODD;
        p = blank(p, end);
        if (p == end || *p != ':') return ODD;
        p = blank(p + 1, end);
        if (p == end) return ODD;
        at_t first = p;
        if (column < 0) {
            if (!(p = skip_value(p, end, 1))) return ODD;
        } else {
            if (named >> column & 1) return ODD; /* twice */
            named |= 1u << column;
            if ((code = read_wanted(items, list, which, column, &p, &there))) return code;
            *given |= (uint32_t)there << column;
        }
        put_value(draft, column < 0 || items->kinds[column] == NOTED ? NO_COLUMN : column, first, p);
        p = blank(p, end);
        if (p == end) return ODD;
        if (*p == '}') break;
        if (*p != ',') return ODD;
        p = blank(p + 1, end);
    }
    *where = p + 1;
    return 0;
}

static ALWAYS int64_t read_list(items_t *items, list_t *list, int which, at_t *where) {
    at_t p = blank(*where + 1, items->end), end = items->end;
    int64_t before[MAX_COLUMNS];
    if (p < end && *p == ']') {
        *where = p + 1;
        return 0;
    }
    for (;;) {
        uint32_t given = 0;
        int64_t code;
        if (p == end) return ODD;
        if (list->count == list->room) return FULL;
        at_t after = list->shape.count < 0 ? NULL : read_alike(items, list, p);
        if (after) {
            p = after;
        } else {
            draft_t draft = {.count = -1};
            count_alike(list);
            for (int column = 0; column < items->keys.count; column++) before[column] = list->present[column];
            if (*p == '{') {
                if ((code = read_object(items, list, which, &p, &given, &draft))) return code;
            } else {
                if (items->bare < 0) return ODD;
                if ((code = read_id(items, list, items->bare, &p))) return code;
                given = 1u << items->bare;
            }
            for (int column = 0; column < items->keys.count; column++) { /* columns that no object has are not filled */
                if (!list->present[column]) continue;
                if (!before[column]) put_missing(items, list, column, 0, list->count);
                if (!(given >> column & 1)) put_missing(items, list, column, list->count, list->count + 1);
            }
            put_shape(items, list, &draft, p, given);
        }
        list->count++;
        p = blank(p, end);
        if (p == end) return ODD;
        if (*p == ']') break;
        if (*p != ',') return ODD;
        p = blank(p + 1, end);
    }
    *where = p + 1;
    return 0;
}

#endif
