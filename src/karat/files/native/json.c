/* Reads blocks of JSON Lines into plain arrays. */

#include "hash.h"
#include "text.h"

#ifndef KARAT_SOURCE
#define KARAT_SOURCE 0
#endif

/* What to do with a field of a line, and of an object in a list. */
enum { VALUE = 0, SKIP = 1, LIST = 2, LIST_OR_NULL = 3 };
enum { TEXT = 0, NUMBER = 1, WHOLE = 2, OTHER = 3, NOTED = 4, NEVER_NULL = 16 };

/* What was found in a field over all lines. */
enum { PLAIN_TEXT = 1, ESCAPED_TEXT = 2, OTHER_VALUE = 4, LACKING = 8, DIFFERENT = 16 };

enum { MAX_FIELDS = 256, MAX_COLUMNS = 16, MAX_LISTS = 4, MAX_PLACES = 64, MAX_DEPTH = 64, MAX_STAGES = 8 };

int64_t karat_abi(void) { return 7; }
int64_t karat_source(void) { return KARAT_SOURCE; }

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
    if (*p == 'n') {
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
    value->whole = kind != NUMBER;
    if (kind != TEXT) {
        value->numbers = list->numbers + column * list->room;
        return;
    }
    value->firsts = list->firsts + column * list->room;
    value->sizes = list->sizes + column * list->room;
    value->width = (int)list->widths[column];
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
    if ((items->kinds[column] & ~NEVER_NULL) == TEXT && width) {
        memset(list->packed[column] + first * width, 0, (size_t)((end - first) * width));
        memset(list->hashes[column] + first, 0, (size_t)(end - first) * sizeof(uint64_t)); /* the hash of an empty id */
    } else if ((items->kinds[column] & ~NEVER_NULL) == TEXT)
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
        } else if (value->firsts) {
            value->firsts[row] = (uint32_t)(first - items->text);
            value->sizes[row] = (uint32_t)(p - first);
            if (p - first > list->longest[value->column]) list->longest[value->column] = p - first;
        } else if (p < end && *p == '\\') {
            int escaped = 0;
            if (!(p = skip_text(p, end, &escaped))) return NULL;
            p--;
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

/* What is asked of a block of lines, and where the answers go. The order is that of `Lines` in the Python door. */
typedef struct {
    /* The fields of a line, and those of the objects in its lists: names one after the other, where each ends. */
    at_t names;
    const int32_t *ends;
    const int8_t *kinds;
    int64_t fields;
    at_t column_names;
    const int32_t *column_ends;
    const int8_t *column_kinds;
    int64_t columns;
    int64_t bare;
    /* Room */
    int64_t line_room, item_room, odd_room;
    /* By line; of fields by field and line, -1 where a line lacks it; of lists by list and line, -1 for null. */
    int64_t *starts, *firsts, *after, *counts;
    uint8_t *found; /* by field */
    /* By list, column and object. */
    double *numbers;
    uint32_t *item_firsts, *item_sizes;
    const int64_t *widths; /* by list and column: bytes of a packed text, 0 where its span is wanted */
    uint8_t *const *packed;
    uint64_t *const *hashes;
    int64_t *present, *longest, *items; /* the last by list */
    int64_t *odd;
    /* One field can be an object of numbers: by name and line, NaN where there is none; where each name begins and ends. */
    int64_t map;
    double *stages;
    int64_t *stage_names;
    int64_t stage_count; /* -1: some line has something else */
    int64_t odd_count;
    int64_t stopped; /* the line, from its first byte, that is not understood */
    int64_t noted;   /* whether an object has a field that is only noted */
} lines_t;

/* Behind an object of numbers at p; NULL for anything else. */
static at_t read_stages(lines_t *asked, at_t text, at_t p, at_t end, int64_t line) {
    uint32_t named = 0;
    p = blank(p + 1, end);
    if (p < end && *p == '}') return p + 1;
    for (int64_t place = 0;; place++) {
        number_t number = {.value = NAN, .exact = 1};
        if (p == end || *p++ != '"') return NULL;
        int64_t stage = place, size = 0;
        if (stage < asked->stage_count) size = asked->stage_names[2 * stage + 1] - asked->stage_names[2 * stage];
        /* Mostly the names are in the same order as before. */
        if (stage >= asked->stage_count || end - p <= size || p[size] != '"' ||
            memcmp(text + asked->stage_names[2 * stage], p, (size_t)size)) {
            at_t close = text_end(p, end);
            if (close == end || *close != '"') return NULL;
            size = close - p;
            for (stage = 0; stage < asked->stage_count; stage++) {
                const int64_t *name = asked->stage_names + 2 * stage;
                if (name[1] - name[0] == size && !memcmp(text + name[0], p, (size_t)size)) break;
            }
        }
        if (stage == MAX_STAGES || (named >> stage & 1)) return NULL;
        named |= 1u << stage;
        if (stage == asked->stage_count) {
            asked->stage_names[2 * stage] = p - text;
            asked->stage_names[2 * stage + 1] = p + size - text;
            for (int64_t i = 0; i < line; i++) asked->stages[stage * asked->line_room + i] = NAN;
            asked->stage_count++;
        }
        p = blank(p + size + 1, end);
        if (p == end || *p != ':') return NULL;
        p = blank(p + 1, end);
        if (p == end) return NULL;
        at_t after = end - p >= NEAR ? quick_number(p, &number.value, &number.fraction) : NULL;
        if (after && *after != ',' && *after != '}') after = NULL;
        p = after ? after : *p == 'n' ? skip_word(p, end, "null") : read_number(p, end, &number);
        if (!p || !number.exact) return NULL;
        asked->stages[stage * asked->line_room + line] = number.value;
        p = blank(p, end);
        if (p == end) return NULL;
        if (*p == '}') return p + 1;
        if (*p != ',') return NULL;
        p = blank(p + 1, end);
    }
}

static int ends_value(uint8_t c) { return c == ',' || c == '}' || c == ' ' || c == '\t' || c == '\r'; }

/* What stood between the values of the last line: mostly it is the same again, with fields that all lines have alike. */
enum { MAX_STEPS = 16, LINE_GAP = 256 };

typedef struct {
    uint8_t gap[LINE_GAP]; /* what is before the value, from the end of the last one or of the last line */
    int size;
    int field, place;    /* whose value follows; field NO_COLUMN: the line ends with the gap */
    int from, constants; /* places of fields inside the gap */
} step_t;

typedef struct {
    int count; /* 0: none is known */
    step_t steps[MAX_STEPS + 1];
    int begins[MAX_PLACES], ends[MAX_PLACES]; /* of the values inside a gap, from its first byte */
} line_shape_t;

/* All lines of a block while they are read. */
typedef struct {
    at_t text, end;
    lines_t *asked;
    int64_t line;
    items_t items;
    list_t lists[MAX_LISTS];
    int list_of[MAX_FIELDS];
    int order[MAX_PLACES], places;           /* which fields the last line had */
    at_t starts[MAX_PLACES], ends[MAX_PLACES]; /* and their values */
    line_shape_t shape;
} block_t;

/* Remember the shape of the line from `from` to `end`, which ends with its line break. */
static void put_line_shape(block_t *block, at_t from, at_t end) {
    line_shape_t *shape = &block->shape;
    int count = 0, constants = 0;
    shape->count = 0;
    for (int place = 0; place <= block->places; place++) {
        int field = place < block->places ? block->order[place] : NO_COLUMN;
        if (field != NO_COLUMN && block->asked->kinds[field] == VALUE && field != block->asked->map &&
            !(block->asked->found[field] & DIFFERENT)) {
            shape->begins[place] = (int)(block->starts[place] - from);
            shape->ends[place] = (int)(block->ends[place] - from);
            constants++;
            continue;
        }
        int64_t size = (field == NO_COLUMN ? end : block->starts[place]) - from;
        if (size > LINE_GAP || count > MAX_STEPS) return;
        step_t *step = shape->steps + count++;
        memcpy(step->gap, from, (size_t)size);
        step->size = (int)size;
        step->field = field;
        step->place = place;
        step->from = place - constants;
        step->constants = constants;
        constants = 0;
        from = field == NO_COLUMN ? end : block->ends[place];
    }
    shape->count = count;
}

/* Whether the gap of a step is at p; the values inside it are noted. */
static inline int has_gap(block_t *block, const step_t *step, at_t p) {
    if (block->end - p < step->size || memcmp(p, step->gap, (size_t)step->size)) return 0;
    for (int place = step->from; place < step->from + step->constants; place++) {
        int64_t at = block->order[place] * block->asked->line_room + block->line;
        block->starts[place] = p + block->shape.begins[place];
        block->ends[place] = p + block->shape.ends[place];
        block->asked->firsts[at] = block->starts[place] - block->text;
        block->asked->after[at] = block->ends[place] - block->text;
    }
    return 1;
}

/* The value of a field that is no list. */
static at_t read_value(block_t *block, int field, at_t p) {
    lines_t *asked = block->asked;
    at_t text = block->text, end = block->end, first = p;
    int64_t room = asked->line_room, line = block->line;
    int64_t *firsts = asked->firsts + field * room, *after = asked->after + field * room;
    if (asked->kinds[field] == SKIP) {
        asked->found[field] = OTHER_VALUE;
        return skip_value(p, end, 1);
    }
    if (asked->found[field] == LACKING) /* no line before had it */
        for (int64_t i = 0; i < line; i++) firsts[i] = after[i] = -1;
    int64_t size = line && field != asked->map && !(asked->found[field] & DIFFERENT) ? after[0] - firsts[0] : 0;
    if (size > 0 && end - p > size && !memcmp(p, text + firsts[0], (size_t)size) && ends_value(p[size])) {
        p += size;
    } else if (*p == '"') {
        int escaped = 0;
        p = skip_text(p + 1, end, &escaped);
        asked->found[field] |= escaped ? ESCAPED_TEXT : PLAIN_TEXT;
        if (field == asked->map) asked->stage_count = -1;
    } else {
        p = NULL;
        if (field == asked->map && asked->stage_count >= 0) {
            p = *first == '{' ? read_stages(asked, text, first, end, line) : skip_word(first, end, "null");
            if (!p) asked->stage_count = -1;
        }
        if (!p) p = skip_value(first, end, 1);
        asked->found[field] |= OTHER_VALUE;
    }
    if (!p) return NULL;
    firsts[line] = first - text;
    after[line] = p - text;
    if (line && !(asked->found[field] & DIFFERENT) &&
        (firsts[0] < 0 || after[0] - firsts[0] != p - first || memcmp(text + firsts[0], first, (size_t)(p - first))))
        asked->found[field] |= DIFFERENT;
    return p;
}

/* The value of a field at *where, which is not the end. */
static ALWAYS int64_t read_field(block_t *block, int field, at_t *where) {
    lines_t *asked = block->asked;
    int which = block->list_of[field];
    if (which < 0) return (*where = read_value(block, field, *where)) ? 0 : ODD;
    list_t *list = block->lists + which;
    int64_t count = -1, before = list->count, code;
    if (**where == '[') {
        if ((code = read_list(&block->items, list, which, where))) return code;
        count = list->count - before;
    } else if (asked->kinds[field] == LIST || !(*where = skip_word(*where, block->end, "null"))) {
        return ODD;
    }
    asked->counts[which * asked->line_room + block->line] = count;
    return 0;
}

/* The lists of a block, and which field has each; 0 where there are too many. */
static int64_t put_lists(block_t *block) {
    lines_t *asked = block->asked;
    int64_t count = 0;
    for (int i = 0; i < asked->fields; i++) {
        asked->found[i] = 0;
        block->list_of[i] = -1;
        if (asked->kinds[i] != LIST && asked->kinds[i] != LIST_OR_NULL) continue;
        if (count == MAX_LISTS) return 0;
        int64_t before = count * asked->columns;
        list_t *list = block->lists + count;
        list->count = list->alike = 0;
        list->room = asked->item_room;
        list->numbers = asked->numbers + before * asked->item_room;
        list->firsts = asked->item_firsts + before * asked->item_room;
        list->sizes = asked->item_sizes + before * asked->item_room;
        list->widths = asked->widths + before;
        list->packed = asked->packed + before;
        list->hashes = asked->hashes + before;
        list->present = asked->present + before;
        list->longest = asked->longest + before;
        list->shape.count = -1;
        for (int c = 0; c < asked->columns; c++) list->present[c] = list->longest[c] = 0;
        block->list_of[i] = (int)count++;
    }
    return count;
}

static ALWAYS int64_t read_lines(at_t text, int64_t size, lines_t *asked) {
    if (size < 0 || size >= INT32_MAX || asked->fields > MAX_FIELDS || asked->columns > MAX_COLUMNS) return ODD;
    at_t p = text, end = text + size;
    asked->odd_count = asked->stopped = asked->stage_count = 0;
    if (!is_text(p, end)) return ODD;
    block_t block;
    block.text = text;
    block.end = end;
    block.asked = asked;
    block.items = (items_t){.text = text,
                            .end = end,
                            .keys = {.names = asked->column_names, .ends = asked->column_ends, .count = (int32_t)asked->columns},
                            .kinds = asked->column_kinds,
                            .bare = (int32_t)asked->bare,
                            .odd = asked->odd,
                            .odd_room = asked->odd_room};
    block.places = -1;
    block.shape.count = 0;
    int64_t list_count = put_lists(&block);
    if (!list_count) return ODD;
    keys_t keys = {.names = asked->names, .ends = asked->ends, .count = (int32_t)asked->fields};
    int absent[MAX_FIELDS], absences = 0; /* fields that lines like the last one lack, to be marked as missing */
    int64_t seen[MAX_FIELDS], room = asked->line_room, line = 0;
    for (int i = 0; i < asked->fields; i++) seen[i] = -1;
    for (; p < end; line++) {
        if (line == room) return MANY;
        block.line = line;
        asked->starts[line] = asked->stopped = p - text;
        for (int64_t stage = 0; stage < asked->stage_count; stage++) asked->stages[stage * room + line] = NAN;
        at_t start = p;
        int place = -1, same = 1, whole = 0;
        int alike = block.shape.count ? 0 : -1; /* the next step; -1: key by key */
        for (;;) {
            int field;
            if (alike >= 0) {
                const step_t *step = block.shape.steps + alike;
                if (has_gap(&block, step, p)) {
                    p += step->size;
                    whole = step->field == NO_COLUMN;
                    if (whole) break;
                    if (p == end) return ODD;
                    field = step->field;
                    place = step->place;
                    alike++;
                } else {
                    alike = -1;
                    for (int i = 0; i <= place; i++) seen[block.order[i]] = line;
                }
            }
            if (alike < 0) {
                p = blank(p, end);
                if (p == end) return ODD;
                if (place >= 0 && *p == '}') break;
                if (*p != (place < 0 ? '{' : ',')) return ODD;
                p = blank(p + 1, end);
                if (place < 0 && p < end && *p == '}') break;
                place++;
                if (!(p = read_key(&keys, place, p, end, &field))) return ODD;
                if (field < 0) return UNKNOWN;
                if (seen[field] == line) return ODD; /* twice */
                seen[field] = line;
                same &= place < block.places && block.order[place] == field;
                if (place < MAX_PLACES) block.order[place] = field;
                p = blank(p, end);
                if (p == end || *p != ':') return ODD;
                p = blank(p + 1, end);
                if (p == end) return ODD;
            }
            at_t first = p;
            int64_t code = read_field(&block, field, &p);
            if (code) return code;
            if (place < MAX_PLACES) {
                block.starts[place] = first;
                block.ends[place] = p;
            }
        }
        if (!whole) {
            p = blank(p + 1, end);
            if (p < end && *p++ != '\n') return ODD;
            place++;
            if (!same || place != block.places) {
                block.places = place <= MAX_PLACES ? place : -1;
                block.shape.count = absences = 0;
                for (int field = 0; field < asked->fields; field++) {
                    if (seen[field] == line || asked->kinds[field] == SKIP) continue;
                    if (asked->kinds[field] == LIST) return ODD;
                    if (block.list_of[field] >= 0 || (asked->found[field] & ~LACKING)) absent[absences++] = field;
                    if (block.list_of[field] < 0) asked->found[field] |= LACKING;
                }
            } else if (p[-1] == '\n') {
                put_line_shape(&block, start, p);
            }
        }
        for (int i = 0; i < absences; i++) {
            int field = absent[i];
            if (block.list_of[field] >= 0) asked->counts[block.list_of[field] * room + line] = -1;
            else asked->firsts[field * room + line] = asked->after[field * room + line] = -1;
        }
    }
    for (int i = 0; i < list_count; i++) {
        count_alike(block.lists + i);
        asked->items[i] = block.lists[i].count;
    }
    asked->odd_count = block.items.odd_count;
    asked->noted = block.items.noted;
    return line;
}

FAST static int64_t read_lines_fast(at_t text, int64_t size, lines_t *asked) { return read_lines(text, size, asked); }

/* How many lines there are, or why they are not read. */
int64_t karat_lines(at_t text, int64_t size, lines_t *asked) {
    return is_fast() ? read_lines_fast(text, size, asked) : read_lines(text, size, asked);
}
