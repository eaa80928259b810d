/* Reads blocks of JSON Lines into plain arrays: line by line. Their lists are read in items.h. */

#include "items.h"

#ifndef KARAT_SOURCE
#define KARAT_SOURCE 0
#endif

/* What to do with a field of a line. */
enum { VALUE = 0, SKIP = 1, LIST = 2, LIST_OR_NULL = 3 };

/* What was found in a field over all lines. */
enum { PLAIN_TEXT = 1, ESCAPED_TEXT = 2, OTHER_VALUE = 4, LACKING = 8, DIFFERENT = 16 };

enum { MAX_FIELDS = 256, MAX_LISTS = 4, MAX_STAGES = 8 };

int64_t karat_abi(void) { return 10; }
int64_t karat_source(void) { return KARAT_SOURCE; }

/* What is asked of a block of lines, and where the answers go. The order is that of `_Asked` in the Python door. */
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
