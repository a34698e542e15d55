/* The inner loops of a search: the same answers as the NumPy paths, bit for bit.

   Each sum runs in the order of NumPy's and nothing is fused or reordered, hence
   -ffp-contract=off. The lock is released while a long kernel runs. Every size is checked before, and
   what a damaged file could hold where it is used: a kernel reads nothing outside its arrays.

   Limited API of CPython 3.11: one file for 3.11 and later. What GNU C adds to C99 is guarded. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0
#error "float is computed wider than it is: the answers would differ from NumPy's"
#endif
/* As in `kernels.py`: raised with every change of what a function takes or gives. */
#define VERSION 8
#if defined(__GNUC__)
#define INLINE static inline __attribute__((always_inline))
INLINE int count_bits(uint64_t word) { return __builtin_popcountll(word); }
INLINE int lowest_bit(uint64_t word) { return __builtin_ctzll(word); }
#define FETCH(address) __builtin_prefetch(address)
#else
#define INLINE static inline
#define FETCH(address) ((void)(address))
INLINE int count_bits(uint64_t word) {
    word -= word >> 1 & 0x5555555555555555u;
    word = (word & 0x3333333333333333u) + (word >> 2 & 0x3333333333333333u);
    return (int)(((word + (word >> 4)) & 0x0F0F0F0F0F0F0F0Fu) * 0x0101010101010101u >> 56);
}
INLINE int lowest_bit(uint64_t word) { return count_bits((word & (0 - word)) - 1); }
#endif

/* ---- arguments ---- */
typedef struct {
    Py_buffer views[9];
    void *items[9];
    int64_t counts[9];
    int held;
} Arrays;

static void release(Arrays *arrays) {
    while (arrays->held) PyBuffer_Release(&arrays->views[--arrays->held]);
}

static int refuse(PyObject *kind, const char *message) {
    PyErr_SetString(kind, message);
    return 0;
}

/* Hold the arrays of a tuple. `sizes` has a digit for each, the bytes of its items (0: any), and
   behind a point those that are written to. 0 with an error set. */
static int take(Arrays *arrays, PyObject *given, const char *sizes) {
    int flags = PyBUF_C_CONTIGUOUS;
    for (arrays->held = 0; *sizes; sizes++) {
        if (*sizes == '.') flags |= PyBUF_WRITABLE, sizes++;
        Py_buffer *view = &arrays->views[arrays->held];
        PyObject *array = PyTuple_GetItem(given, arrays->held);
        if (!array || PyObject_GetBuffer(array, view, flags) < 0) return 0;
        Py_ssize_t size = view->itemsize > 0 ? view->itemsize : 1;
        arrays->items[arrays->held] = view->len ? view->buf : arrays; /* never NULL */
        arrays->counts[arrays->held++] = view->len / size;
        if ((*sizes != '0' && size != *sizes - '0') || (uintptr_t)view->buf % (size_t)size)
            return refuse(PyExc_TypeError, "an array is of another type, or its items are not aligned");
    }
    return 1;
}

/* ---- BM25 ---- */
/* Two scores that round to the same value lie no further apart, as `ranking.SLACK`. */
#define SLACK 1.01e-6
/* Sums of so many units at a time stay in the first cache. */
#define WINDOW 8192

typedef struct {
    double score, rounded;
    int64_t unit;
} Hit;
typedef struct {
    int64_t at, end; /* what is left of the word's postings */
    double weight, density; /* density: postings a unit */
} List;
typedef struct {
    const int32_t *ids;
    const void *counts;
    int size; /* of a count, in bytes */
    const uint32_t *lengths;
    int64_t units;
    const uint8_t *counting; /* of each unit whether it counts, NULL: all do */
    double slope, base, shortest; /* shortest: the least of the lengths */
    int words;
    List *lists; /* heaviest first */
    double *rest; /* what the lists from i on can add at most */
    double *sums;
    uint64_t *seen;
    Hit *heap; /* the best so far, the worst of them first */
    int64_t held, limit;
    double bar;
} Query;

INLINE int worse(const Hit *one, const Hit *other) {
    return one->rounded < other->rounded || (one->rounded == other->rounded && one->unit > other->unit);
}
static int best_first(const void *one, const void *other) { return worse(one, other) ? 1 : -1; }
static void sift_down(Hit *heap, int64_t count, int64_t at) {
    Hit moved = heap[at];
    for (int64_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && worse(&heap[child + 1], &heap[child])) child++;
        if (!worse(&heap[child], &moved)) break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

static void keep(Query *q, double score, int64_t unit) {
    Hit hit = {score, rint(score * 1e6) / 1e6, unit}; /* as numpy.round does */
    if (q->held < q->limit) {
        q->heap[q->held++] = hit;
        if (q->held < q->limit) return;
        for (int64_t at = q->limit / 2; at >= 0; at--) sift_down(q->heap, q->held, at);
    } else {
        if (!worse(&q->heap[0], &hit)) return;
        q->heap[0] = hit;
        sift_down(q->heap, q->held, 0);
    }
    if (q->heap[0].rounded > q->bar) q->bar = q->heap[0].rounded;
}

INLINE double count_at(const void *counts, int size, int64_t at) {
    if (size == 1) return ((const uint8_t *)counts)[at];
    return size == 2 ? ((const uint16_t *)counts)[at] : ((const uint32_t *)counts)[at];
}

/* What a list adds to a unit at most: its greatest count to the shortest unit. Of a long list, whose counts would take
   long to look at, it is the whole weight. */
static double most_of(const Query *q, const List *list) {
    enum { MANY = 1 << 16 };
    int64_t at = list->at, end = list->end;
    double greatest = 0.0;
    if (end - at > MANY) return list->weight;
    if (q->size == 1) { /* several at a time */
        const uint8_t *counts = q->counts;
        uint8_t found = 0;
        for (; at < end; at++) found = counts[at] > found ? counts[at] : found;
        greatest = found;
    }
    for (; at < end; at++) greatest = fmax(greatest, count_at(q->counts, q->size, at));
    return greatest > 0.0 ? greatest / (q->shortest * q->slope + q->base + greatest) * list->weight : 0.0;
}

/* The part of a posting's denominator that its unit gives. */
INLINE double norm_of(const Query *q, int64_t unit) { return (double)q->lengths[unit] * q->slope + q->base; }

/* How often a unit has the word of a list, which is left there. Units come in ascending order. */
INLINE double look_up(const Query *q, List *list, int64_t unit) {
    int64_t low = list->at, high = list->end, step = 1;
    if (low == high || q->ids[low] > unit) return 0.0;
    /* Units are spread about evenly: look near where this one would then be. */
    int64_t middle = low + (int64_t)((double)(unit - q->ids[low]) * list->density);
    if (middle >= high) middle = high - 1;
    if (q->ids[middle] < unit) {
        for (low = middle + 1; low + step < high && q->ids[low + step] < unit; step *= 2) low += step + 1;
        if (low + step < high) high = low + step;
    } else {
        for (high = middle; high - step > low && q->ids[high - step] >= unit; step *= 2) high -= step;
        if (high - step > low) low = high - step;
    }
    while (low < high) {
        middle = low + (high - low) / 2;
        if (q->ids[middle] < unit) low = middle + 1;
        else high = middle;
    }
    list->at = low;
    return low < list->end && q->ids[low] == unit ? count_at(q->counts, q->size, low) : 0.0;
}

/* Add what the lists from `first` on have of a unit, as long as it can be among the best. */
INLINE void finish(Query *q, int first, int64_t unit, double sum) {
    double norm = norm_of(q, unit);
    for (int i = first; i < q->words; i++) {
        if (sum + q->rest[i] < q->bar - SLACK) return;
        double count = look_up(q, &q->lists[i], unit);
        if (count > 0.0) sum += count / (norm + count) * q->lists[i].weight;
    }
    if (sum > 0.0 && sum >= q->bar - SLACK) keep(q, sum, unit);
}

/* Walk the first `walked` lists side by side, and look the others up for the units that these have;
   a unit that none of them has is not met. Fewer are walked as the bar rises. 0 for postings that
   are not ascending units, as of a damaged file. */
static int walk(Query *q, int walked) {
    int64_t low = 0;
    /* The first windows are short: the bar is up before most is walked. */
    for (int64_t window = 512;; low += window, window = window < WINDOW ? 2 * window : WINDOW) {
        while (walked && q->rest[walked - 1] < q->bar - SLACK) walked--;
        int64_t next = q->units;
        for (int i = 0; i < walked; i++) {
            if (q->lists[i].at == q->lists[i].end) continue;
            int64_t id = q->ids[q->lists[i].at];
            if (id < low || id >= q->units) return 0;
            if (id < next) next = id;
        }
        if (next == q->units) return 1;
        low = next;
        uint64_t span = (uint64_t)(q->units - low < window ? q->units - low : window);
        for (int i = 0; i < walked; i++) {
            List *list = &q->lists[i];
            int64_t at = list->at;
            /* One comparison for both ends: what is below `low` is a very large unsigned number. */
            for (uint64_t place; at < list->end && (place = (uint64_t)(q->ids[at] - low)) < span; at++) {
                if (q->counting && !q->counting[q->ids[at]]) continue;
                double count = count_at(q->counts, q->size, at);
                q->sums[place] += count / (norm_of(q, q->ids[at]) + count) * list->weight;
                q->seen[place / 64] |= (uint64_t)1 << place % 64;
            }
            list->at = at;
        }
        for (uint64_t word = 0; word <= (span - 1) / 64; word++) {
            uint64_t bits = q->seen[word];
            q->seen[word] = 0;
            for (; bits; bits &= bits - 1) {
                int64_t place = (int64_t)word * 64 + lowest_bit(bits);
                double sum = q->sums[place];
                q->sums[place] = 0.0;
                finish(q, walked, low + place, sum);
            }
        }
    }
}

/* The best units into the heap, best first. Turtle and Flood, Query Evaluation: Strategies and
   Optimizations, 1995. `copy` has room for the lists. */
static int search(Query *q, List *copy) {
    q->rest[q->words] = 0.0;
    for (int i = q->words; i--;) q->rest[i] = q->rest[i + 1] + most_of(q, &q->lists[i]);
    /* First the units with any of the words that few units have: often no other can be better. */
    int64_t postings = 0, few = q->units / 16 > 1024 ? q->units / 16 : 1024;
    int rare = 0;
    for (; rare < q->words; rare++) {
        postings += q->lists[rare].end - q->lists[rare].at;
        if (postings > few) break;
    }
    memcpy(copy, q->lists, (size_t)q->words * sizeof(List));
    if (rare && !walk(q, rare)) return 0;
    if (rare < q->words && q->rest[rare] >= q->bar - SLACK) {
        memcpy(q->lists, copy, (size_t)q->words * sizeof(List));
        q->held = 0;
        if (!walk(q, q->words)) return 0;
    }
    qsort(q->heap, (size_t)q->held, sizeof(Hit), best_first);
    return 1;
}

/* ---- words ---- */
static int64_t first_from(const uint64_t *sorted, int64_t count, uint64_t value) {
    int64_t low = 0;
    while (low < count) {
        int64_t middle = low + (count - low) / 2;
        if (sorted[middle] < value) low = middle + 1;
        else count = middle;
    }
    return low;
}

/* find((blob, offsets, prefixes), words): the numbers of those words that a sorted vocabulary has, by word. */
static PyObject *find(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *given, *words, *found = NULL;
    Arrays arrays;
    if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &given, &PyList_Type, &words)) return NULL;
    int done = take(&arrays, given, "188");
    const int64_t *offsets = arrays.items[1], count = done ? arrays.counts[2] : 0;
    if (done && arrays.counts[1] != count + 1) done = refuse(PyExc_ValueError, "arrays of words differ in length");
    if (done) done = (found = PyDict_New()) != NULL;
    for (Py_ssize_t k = 0; done && k < PyList_Size(words); k++) {
        Py_ssize_t size;
        PyObject *word = PyList_GetItem(words, k);
        const char *text = PyUnicode_AsUTF8AndSize(word, &size);
        if (!text) { /* a word with a surrogate is in none */
            if (!(done = PyErr_ExceptionMatches(PyExc_UnicodeEncodeError))) break;
            PyErr_Clear();
            continue;
        }
        uint64_t prefix = 0;
        for (int i = 0; i < 8; i++) prefix = prefix << 8 | (i < size ? (uint8_t)text[i] : 0);
        int64_t low = first_from(arrays.items[2], count, prefix), order = 1;
        int64_t end = prefix < UINT64_MAX ? first_from(arrays.items[2], count, prefix + 1) : count;
        for (int64_t high = end; low < end; ) {
            int64_t at = low < high ? low + (high - low) / 2 : low, from = offsets[at], to = offsets[at + 1];
            if (from < 0 || from > to || to > arrays.counts[0]) {
                done = refuse(PyExc_ValueError, "words of the index are damaged");
                break;
            }
            order = memcmp((const uint8_t *)arrays.items[0] + from, text, (size_t)(to - from < size ? to - from : size));
            if (!order) order = to - from - size;
            if (low >= high) break;
            if (order < 0) low = at + 1;
            else high = at;
        }
        if (!done || order || low == end) continue;
        PyObject *number = PyLong_FromLongLong(low);
        done = number && PyDict_SetItem(found, word, number) == 0;
        Py_XDECREF(number);
    }
    release(&arrays);
    if (!done) Py_CLEAR(found);
    return found;
}

/* runs((data, kept, keys, values, *, starts, ends, found)): how many runs of bytes that are kept a text has. Where
   each starts and ends is written to the last arrays, and the value of it that the hash table of `_RunTable` has;
   -1 for none, and for what is longer than a key. */
static PyObject *runs(PyObject *Py_UNUSED(module), PyObject *args) {
    enum { KEY = 16, BLOCK = 64 };
    PyObject *given;
    Arrays arrays;
    int64_t count = 0;
    if (!PyArg_ParseTuple(args, "O!", &PyTuple_Type, &given)) return NULL;
    int done = take(&arrays, given, "1184.884");
    if (!done) goto end;
    const uint8_t *data = arrays.items[0], *kept = arrays.items[1];
    const uint64_t *keys = arrays.items[2], slots = (uint64_t)arrays.counts[3];
    const int32_t *values = arrays.items[3];
    int64_t *starts = arrays.items[4], *ends = arrays.items[5];
    int32_t *found = arrays.items[6];
    const int64_t size = arrays.counts[0], room = size / 2 + 1;
    if (arrays.counts[1] != 256 || slots < 2 || slots & (slots - 1) || arrays.counts[2] / 2 != arrays.counts[3] ||
        arrays.counts[2] % 2 || arrays.counts[4] < room || arrays.counts[5] < room || arrays.counts[6] < room) {
        done = refuse(PyExc_ValueError, "arrays of runs differ in length");
        goto end;
    }
    Py_BEGIN_ALLOW_THREADS
    int shift = 64;
    while ((uint64_t)1 << (64 - shift) < slots) shift--;
    for (int64_t at = 0; at < size;) {
        /* The places of a block are on their way to the cache before the first of them is read. */
        uint64_t wanted[BLOCK][2] = {{0}}, places[BLOCK];
        int64_t first = count;
        for (; count - first < BLOCK; count++) {
            while (at < size && !kept[data[at]]) at++;
            if (at == size) break;
            starts[count] = at;
            while (at < size && kept[data[at]]) at++;
            ends[count] = at;
            uint64_t *key = wanted[count - first];
            int64_t length = at - starts[count];
            memcpy(key, data + starts[count], (size_t)(length < KEY ? length : KEY));
            uint64_t mixed = key[0] * 0x9E3779B97F4A7C15u ^ key[1] * 0x6A09E667F3BCC909u;
            uint64_t place = places[count - first] = mixed * 0x9E3779B97F4A7C15u >> shift;
            FETCH(keys + 2 * place);
            FETCH(values + place);
        }
        for (int64_t run = first; run < count; run++) {
            const uint64_t *key = wanted[run - first];
            uint64_t place = places[run - first];
            found[run] = -1;
            if (ends[run] - starts[run] > KEY) continue;
            for (uint64_t tried = 0; tried < slots && values[place] != -1; tried++, place = (place + 1) & (slots - 1))
                if (keys[2 * place] == key[0] && keys[2 * place + 1] == key[1]) {
                    found[run] = values[place];
                    break;
                }
        }
    }
    Py_END_ALLOW_THREADS
end:
    release(&arrays);
    return done ? PyLong_FromLongLong(count) : NULL;
}

/* bm25((ids, counts, lengths, offsets, counting, *, units, scores), terms, numbers, slope, base, bar, shortest): how
   many units were found; they and their scores are written to the last two arrays. `terms` are the weights, greatest
   first, `numbers` those of the terms that the segment has, `shortest` is the least of the lengths. */
static PyObject *bm25(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *given, *terms, *numbers, *term, *weight, *number;
    Py_ssize_t next = 0;
    Arrays arrays;
    Query q = {.held = 0};
    if (!PyArg_ParseTuple(args, "O!O!O!dddd", &PyTuple_Type, &given, &PyDict_Type, &terms, &PyDict_Type, &numbers,
                          &q.slope, &q.base, &q.bar, &q.shortest))
        return NULL;
    int done = take(&arrays, given, "40481.88");
    if (!done) goto end;
    const int64_t *offsets = arrays.items[3], words = PyDict_Size(terms);
    q.ids = arrays.items[0], q.counts = arrays.items[1], q.size = (int)arrays.views[1].itemsize;
    q.lengths = arrays.items[2], q.units = arrays.counts[2];
    q.counting = arrays.counts[4] ? arrays.items[4] : NULL;
    q.limit = arrays.counts[5];
    if (arrays.counts[1] != arrays.counts[0] || arrays.counts[6] != q.limit ||
        (q.counting && arrays.counts[4] != q.units) || (q.size != 1 && q.size != 2 && q.size != 4) ||
        words > 1 << 24 || q.limit > 1 << 30) {
        done = refuse(PyExc_ValueError, "arrays of one search differ in length");
        goto end;
    }
    size_t lists = (size_t)words * sizeof(List), heap = ((size_t)q.limit + 1) * sizeof(Hit);
    q.sums = calloc(1, (WINDOW + WINDOW / 64 + (size_t)words + 1) * 8 + 2 * lists + heap);
    if (!q.sums) {
        done = refuse(PyExc_MemoryError, "there is no memory for a search");
        goto end;
    }
    q.seen = (uint64_t *)(q.sums + WINDOW);
    q.rest = (double *)(q.seen + WINDOW / 64);
    q.lists = (List *)(q.rest + words + 1);
    q.heap = (Hit *)(q.lists + 2 * words);
    while (done && q.words < words && PyDict_Next(terms, &next, &term, &weight)) {
        if (!(number = PyDict_GetItemWithError(numbers, term))) continue;
        int64_t word = PyLong_AsLongLong(number), known = word >= 0 && word < arrays.counts[3] - 1;
        int64_t at = known ? offsets[word] : -1, end = known ? offsets[word + 1] : -1;
        double most = PyErr_Occurred() ? 0.0 : PyFloat_AsDouble(weight);
        done = !PyErr_Occurred() && at >= 0 && at <= end && end <= arrays.counts[0];
        q.lists[q.words++] = (List){at, end, most, (double)(end - at) / (double)(q.units ? q.units : 1)};
    }
    if (PyErr_Occurred()) goto freed;
    if (done && q.limit) {
        Py_BEGIN_ALLOW_THREADS
        done = search(&q, q.lists + words);
        for (int64_t i = 0; i < q.held; i++) {
            ((int64_t *)arrays.items[5])[i] = q.heap[i].unit;
            ((double *)arrays.items[6])[i] = q.heap[i].score;
        }
        Py_END_ALLOW_THREADS
    }
    if (!done) refuse(PyExc_ValueError, "postings of the index are damaged");
freed:
    free(q.sums);
end:
    release(&arrays);
    return PyErr_Occurred() ? NULL : PyLong_FromLongLong(q.held);
}

/* holds((ids, counts, offsets, numbers, columns, units, *, out), width): how often units[i] has the word
   numbers[k] is added to row i of `out`, of `width` columns, in columns[k]. */
static PyObject *holds(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *given;
    Arrays arrays;
    long long width;
    if (!PyArg_ParseTuple(args, "O!L", &PyTuple_Type, &given, &width)) return NULL;
    int done = take(&arrays, given, "408884.8");
    if (!done) goto end;
    const int32_t *ids = arrays.items[0], *wanted = arrays.items[5];
    const int64_t *offsets = arrays.items[2], *numbers = arrays.items[3], *columns = arrays.items[4];
    double *out = arrays.items[6];
    int64_t words = arrays.counts[3], units = arrays.counts[5], cells = arrays.counts[6];
    int size = (int)arrays.views[1].itemsize;
    if (arrays.counts[1] != arrays.counts[0] || arrays.counts[4] != words || width < 0 ||
        (width ? cells % width || cells / width != units : cells) || (size != 1 && size != 2 && size != 4)) {
        done = refuse(PyExc_ValueError, "arrays of one segment differ in length");
        goto end;
    }
    Py_BEGIN_ALLOW_THREADS
    for (int64_t k = 0; done && k < words; k++) {
        int known = numbers[k] >= 0 && numbers[k] < arrays.counts[2] - 1;
        int64_t start = known ? offsets[numbers[k]] : -1, end = known ? offsets[numbers[k] + 1] : -1;
        done = start >= 0 && start <= end && end <= arrays.counts[0] && columns[k] >= 0 && columns[k] < width;
        for (int64_t i = 0; done && i < units; i++) {
            int64_t low = start, high = end;
            while (low < high) {
                int64_t middle = low + (high - low) / 2;
                if (ids[middle] < wanted[i]) low = middle + 1;
                else high = middle;
            }
            if (low < end && ids[low] == wanted[i]) out[i * width + columns[k]] += count_at(arrays.items[1], size, low);
        }
    }
    Py_END_ALLOW_THREADS
    if (!done) refuse(PyExc_ValueError, "postings of the index are damaged");
end:
    release(&arrays);
    if (!done) return NULL;
    Py_RETURN_NONE;
}

/* ---- vectors ---- */
/* Rows at a time: their counts stay in registers. */
#define BLOCK 64
/* So many rows ahead are fetched. */
#define AHEAD 6
/* One in so many values is looked at for a bar. */
#define SAMPLE 16

/* Whether every sum of products of these with bytes is below 2**31. */
static int fits(const int16_t *query, int64_t width) {
    int64_t sum = 0;
    for (int64_t i = 0; i < width; i++) sum += query[i] < 0 ? -query[i] : query[i];
    return sum <= INT32_MAX / 128;
}

/* So many sums run side by side. */
#define LANES 8
/* As `quantization.exact`. */
static double dot(const float *one, const float *other, int64_t width) {
    double sums[LANES] = {0}, sum = 0.0;
    int64_t at = 0;
    for (; at + LANES <= width; at += LANES)
        for (int i = 0; i < LANES; i++) sums[i] += (double)one[at + i] * (double)other[at + i];
    for (int i = 0; at + i < width; i++) sums[i] += (double)one[at + i] * (double)other[at + i];
    for (int i = 0; i < LANES; i++) sum += sums[i];
    return sum;
}

typedef struct {
    const uint64_t *words, *mine;
    int64_t rows, width;
    const float *spreads;
    float slope, half, *estimates;
} Signs;

/* As `quantization.estimate`. Words so many blocks ahead are fetched, where counting waits for memory (0: none). */
INLINE void estimate_block(const Signs *s, int64_t from, int64_t count, int ahead) {
    uint64_t differ[BLOCK];
    for (int64_t i = 0; i < count; i++) differ[i] = (uint64_t)count_bits(s->words[from + i] ^ s->mine[0]);
    for (int64_t w = 1; w < s->width; w++) {
        const uint64_t *word = s->words + w * s->rows + from, mine = s->mine[w];
        for (int64_t i = 0; ahead && i < BLOCK; i += 8) FETCH(word + ahead * BLOCK + i);
        for (int64_t i = 0; i < count; i++) differ[i] += (uint64_t)count_bits(word[i] ^ mine);
    }
    for (int64_t i = 0; i < count; i++) {
        float spread = s->spreads[from + i], estimate = (float)(int32_t)differ[i] * s->slope;
        estimate += s->half;
        estimate -= spread * 0.5f;
        s->estimates[from + i] = estimate * spread;
    }
}

INLINE void estimate_all(const Signs *s, int ahead) {
    int64_t from = 0;
    for (; from + BLOCK <= s->rows; from += BLOCK) estimate_block(s, from, BLOCK, ahead);
    if (from < s->rows) estimate_block(s, from, s->rows - from, 0);
}

#define MULTIPLIED \
    const int8_t *codes, int64_t width, const int32_t *rows, int64_t count, const int16_t *query, float *out
/* The dot product of each of the rows with the query; of all where `rows` is NULL. */
INLINE void multiply(MULTIPLIED) {
    for (int64_t at = 0; at < count; at++) {
        const int8_t *row = codes + (rows ? rows[at] : at) * width;
        for (int64_t i = 0; rows && at + AHEAD < count && i < width; i += 64)
            FETCH(codes + rows[at + AHEAD] * width + i);
        int32_t sum = 0;
        for (int64_t i = 0; i < width; i++) sum += (int16_t)row[i] * query[i];
        out[at] = (float)sum;
    }
}

#define LISTED const float *values, int64_t rows, float bar, int32_t *listed, float *kept
INLINE uint64_t bits_above(const float *values, int64_t count, float bar) {
    uint64_t bits = 0;
    for (int64_t i = 0; i < count; i++) bits |= (uint64_t)(values[i] >= bar) << i;
    return bits;
}

/* The rows whose value reaches the bar, and their values: how many. Not those of -INFINITY. */
INLINE int64_t list_rows(LISTED) {
    int64_t count = 0;
    if (!(bar > -FLT_MAX)) bar = -FLT_MAX;
    for (int64_t from = 0; from < rows; from += BLOCK) {
        int whole = rows - from >= BLOCK;
        uint64_t bits = whole ? bits_above(values + from, BLOCK, bar) : bits_above(values + from, rows - from, bar);
        for (; bits; bits &= bits - 1) {
            int64_t row = from + lowest_bit(bits);
            listed[count] = (int32_t)row, kept[count++] = values[row];
        }
    }
    return count;
}

typedef struct {
    const char *name;
    void (*estimate)(const Signs *);
    void (*multiply)(MULTIPLIED);
    int64_t (*list_above)(LISTED);
} Level;

/* The loops over vectors, compiled for one kind of processor. */
#define LEVEL(name, ahead, attribute) \
    attribute static void estimate_##name(const Signs *s) { estimate_all(s, ahead); } \
    attribute static void multiply_##name(MULTIPLIED) { \
        if (rows) multiply(codes, width, rows, count, query, out); \
        else multiply(codes, width, NULL, count, query, out); \
    } \
    attribute static int64_t list_##name(LISTED) { return list_rows(values, rows, bar, listed, kept); } \
    static const Level name = {#name, estimate_##name, multiply_##name, list_##name};

LEVEL(plain, 0, )
#if defined(__x86_64__) && defined(__GNUC__)
LEVEL(avx2, 0, __attribute__((target("avx2,popcnt"))))
LEVEL(avx512, 4, __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vpopcntdq,avx512vnni,popcnt"))))
static const Level *const levels[] = {&avx512, &avx2, &plain}; /* the best first */
static int has(const Level *wanted) {
    __builtin_cpu_init();
    int both = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("popcnt");
    if (wanted != &avx512) return wanted == &plain || both;
    return both && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vpopcntdq") &&
           __builtin_cpu_supports("avx512vnni");
}
#else
static const Level *const levels[] = {&plain};
static int has(const Level *wanted) { return wanted == &plain; }
#endif
static const Level *level = &plain;

/* use(name): take the level of this name, the best where it is "", if the processor has it; the name of
   what is in use. */
static PyObject *use(PyObject *Py_UNUSED(module), PyObject *args) {
    const char *name;
    if (!PyArg_ParseTuple(args, "s", &name)) return NULL;
    for (size_t at = sizeof levels / sizeof *levels; at--;)
        if ((!*name || !strcmp(name, levels[at]->name)) && has(levels[at])) level = levels[at];
    return PyUnicode_FromString(level->name);
}

/* What would stand at `place` if the values were sorted; they are moved. Hoare, Algorithm 65: Find. */
static float nth(float *values, int64_t count, int64_t place) {
    for (int64_t low = 0, high = count - 1; low < high;) {
        float pivot = values[low + (high - low) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (values[i] < pivot) i++;
            while (values[j] > pivot) j--;
            if (i > j) break;
            float moved = values[i];
            values[i++] = values[j], values[j--] = moved;
        }
        if (place > j && place < i) break;
        if (place <= j) high = j;
        else low = i;
    }
    return values[place];
}

/* The `limit`-th best of the values, -INFINITY where there are fewer. A sample gives a bar that few pass. */
static float best_at(const float *values, int64_t rows, int64_t limit, int32_t *listed, float *kept) {
    int64_t sampled = 0, place = limit / SAMPLE + 6;
    for (int64_t row = 0; row < rows; row += SAMPLE) kept[sampled++] = values[row];
    float bar = sampled > 4 * place ? nth(kept, sampled, sampled - place) : -FLT_MAX;
    int64_t passing = level->list_above(values, rows, bar, listed, kept);
    if (passing < limit) passing = level->list_above(values, rows, -FLT_MAX, listed, kept);
    return passing < limit ? -INFINITY : nth(kept, passing, passing - limit);
}

static int are_there(const int32_t *rows, int64_t count, int64_t of) {
    for (int64_t i = 0; i < count; i++)
        if (rows[i] < 0 || rows[i] >= of) return refuse(PyExc_IndexError, "a row is not there");
    return 1;
}

/* Places of so many rows and their scores, as two objects of bytes. */
static PyObject *answer(int64_t count, const int32_t *places, const float *scores) {
    return Py_BuildValue("y#y#", places, (Py_ssize_t)count * 4, scores, (Py_ssize_t)count * 4);
}

/* scan((codes, query, scales, rows, dead, *, scratch), scale, limit, margin): the rows, all or of `rows`, that score
   within `margin` of the `limit`-th best, as `answer`. `scratch` has 12 bytes a row, and all scores first. */
static PyObject *scan(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *given, *found = NULL;
    Arrays arrays;
    float scale;
    double margin;
    long long limit;
    int64_t listed = 0;
    if (!PyArg_ParseTuple(args, "O!fLd", &PyTuple_Type, &given, &scale, &limit, &margin)) return NULL;
    int done = take(&arrays, given, "12444.4");
    if (!done) goto end;
    int64_t width = arrays.counts[1], of = arrays.counts[2], dead = arrays.counts[4];
    const int32_t *rows = arrays.counts[3] ? arrays.items[3] : NULL, *gone = arrays.items[4];
    int64_t count = rows ? arrays.counts[3] : of;
    const float *scales = arrays.items[2];
    float *scores = arrays.items[5], *kept = scores + 2 * count;
    int32_t *places = (int32_t *)(scores + count);
    if (!fits(arrays.items[1], width) || of > INT32_MAX || limit < 1 || arrays.counts[0] != of * width ||
        arrays.counts[5] / 3 < count)
        done = refuse(PyExc_ValueError, "arrays of one segment differ in length");
    done = done && are_there(rows, rows ? count : 0, of) && are_there(gone, dead, count);
    if (!done) goto end;
    Py_BEGIN_ALLOW_THREADS
    level->multiply(arrays.items[0], width, rows, count, arrays.items[1], scores);
    for (int64_t i = 0; i < count; i++) scores[i] = scores[i] * scales[rows ? rows[i] : i] * scale;
    for (int64_t i = 0; i < dead; i++) scores[gone[i]] = -INFINITY;
    float bar = (float)((double)best_at(scores, count, limit, places, kept) - margin);
    listed = level->list_above(scores, count, bar, places, kept);
    Py_END_ALLOW_THREADS
    found = answer(listed, places, kept);
end:
    release(&arrays);
    return found;
}

/* What a query is to the signs, as `quantization._aimed`; `mine` is for its bits, and empty. */
static void aim(Signs *s, const float *query, const float *centre, int64_t width, float *offset, uint8_t *mine) {
    for (int64_t i = 0; i < width; i++) {
        offset[i] = query[i] - centre[i];
        mine[i / 8] |= (uint8_t)((offset[i] >= 0) << (7 - i % 8));
    }
    double norm = sqrt(dot(offset, offset, width)) * 3.141592653589793;
    s->slope = (float)(-norm / (double)width), s->half = (float)(norm / 2);
}

/* shortlist((words, centre, spreads, dead, codes, vector, query, scales, *, scratch), scale, depth, stride): the rows
   on the shortlist, as `answer`; `scratch` is that of `scan`, `query` the whole numbers of `vector`. */
static PyObject *shortlist(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *given, *found = NULL;
    Arrays arrays;
    Signs s = {0};
    float scale;
    long long depth, stride;
    int64_t listed = 0;
    if (!PyArg_ParseTuple(args, "O!fLL", &PyTuple_Type, &given, &scale, &depth, &stride)) return NULL;
    int done = take(&arrays, given, "84441424.4");
    if (!done) goto end;
    s.words = arrays.items[0], s.spreads = arrays.items[2], s.estimates = arrays.items[8];
    s.rows = arrays.counts[2];
    const int64_t width = arrays.counts[6];
    const int32_t *dead = arrays.items[3];
    const float *scales = arrays.items[7];
    int32_t *rows = (int32_t *)(s.estimates + s.rows);
    float *scores = s.estimates + 2 * s.rows;
    s.width = (width + 63) / 64;
    if (!fits(arrays.items[6], width) || s.rows < 1 || s.rows > INT32_MAX || width < 1 || depth < 0 || stride < 1 ||
        arrays.counts[0] != s.rows * s.width || arrays.counts[1] != width || arrays.counts[4] != s.rows * width ||
        arrays.counts[5] != width || arrays.counts[7] != s.rows || arrays.counts[8] / 3 < s.rows)
        done = refuse(PyExc_ValueError, "arrays of one segment differ in length");
    done = done && are_there(dead, arrays.counts[3], s.rows);
    uint64_t *mine = done ? calloc((size_t)s.width, 8 + 64 * sizeof(float)) : NULL;
    if (done && !mine) done = refuse(PyExc_MemoryError, "there is no memory for a search");
    if (!done) goto end;
    Py_BEGIN_ALLOW_THREADS
    s.mine = mine;
    aim(&s, arrays.items[5], arrays.items[1], width, (float *)(mine + s.width), (uint8_t *)mine);
    level->estimate(&s);
    free(mine);
    for (int64_t i = 0; i < arrays.counts[3]; i++) s.estimates[dead[i]] = -INFINITY;
    /* The best of a sample give the bar. */
    int64_t sampled = 0;
    for (int64_t row = 0; row < s.rows; row += stride) scores[sampled++] = s.estimates[row];
    int64_t best = depth / stride < sampled ? depth / stride + 1 : sampled;
    float bar = 2 * sampled > s.rows ? nth(scores, sampled, sampled - best)
                                     : best_at(scores, sampled, best, rows, scores + sampled);
    listed = level->list_above(s.estimates, s.rows, bar, rows, scores);
    level->multiply(arrays.items[4], width, rows, listed, arrays.items[6], scores);
    for (int64_t i = 0; i < listed; i++) scores[i] = scores[i] * scales[rows[i]] * scale;
    Py_END_ALLOW_THREADS
    found = answer(listed, rows, scores);
end:
    release(&arrays);
    return found;
}

/* Of one segment: scores of some rows, which these are, and the scales of all. */
enum { SCORES, PLACES, SCALES };

/* Which of so many segments' rows may be among the `limit` best of all, into `listed`, one segment after the other;
   how many of each into `counts`. As `vector_search._near`. `all` and `kept` have room for all scores. */
static void list_near(const Arrays *parts, int64_t count, double norm, double scale, double sure, int64_t limit,
                      float *all, int32_t *listed, float *kept, int64_t *counts) {
    int64_t total = 0;
    for (int64_t p = 0; p < count; total += parts[p++].counts[SCORES])
        memcpy(all + total, parts[p].items[SCORES], (size_t)parts[p].counts[SCORES] * sizeof(float));
    double floor = best_at(all, total, limit, listed, kept), step = 0.0;
    for (int64_t p = 0, i; p < count; p++) {
        const float *scores = parts[p].items[SCORES], *scales = parts[p].items[SCALES];
        const int32_t *places = parts[p].items[PLACES];
        for (i = 0; i < parts[p].counts[SCORES]; i++)
            if (scores[i] >= floor && scales[places[i]] > step) step = scales[places[i]];
    }
    for (int64_t p = 0, i; p < count; p++) {
        const float *scores = parts[p].items[SCORES], *scales = parts[p].items[SCALES];
        const int32_t *places = parts[p].items[PLACES];
        counts[p] = 0;
        for (i = 0; i < parts[p].counts[SCORES]; i++) {
            double other = scales[places[i]];
            double margin = sure * sqrt((norm * norm * (step * step + other * other) + 4 * scale * scale) / 12);
            if (scores[i] + margin >= floor) listed[counts[p]++] = places[i];
        }
        listed += counts[p];
    }
}

/* near([(scores, places, scales)], norm, scale, sure, limit): of each segment those of its places, as bytes, whose
   rows may be among the `limit` best of all. */
static PyObject *near(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *given, *found = NULL;
    double norm, scale, sure;
    long long limit;
    if (!PyArg_ParseTuple(args, "O!dddL", &PyList_Type, &given, &norm, &scale, &sure, &limit)) return NULL;
    int64_t count = PyList_Size(given), held = 0, total = 0;
    Arrays *parts = calloc((size_t)count + 1, sizeof(Arrays) + sizeof(int64_t));
    int64_t *counts = parts ? (int64_t *)(parts + count) : NULL;
    float *all = NULL;
    int done = parts || refuse(PyExc_MemoryError, "there is no memory for a search");
    while (done && held < count) {
        Arrays *part = &parts[held];
        PyObject *arrays = PyList_GetItem(given, held++);
        done = PyTuple_Check(arrays) || refuse(PyExc_TypeError, "the arrays of a segment are no tuple");
        done = done && take(part, arrays, "444");
        if (done && (part->counts[SCORES] != part->counts[PLACES] || limit < 1))
            done = refuse(PyExc_ValueError, "arrays of one segment differ in length");
        done = done && are_there(part->items[PLACES], part->counts[PLACES], part->counts[SCALES]);
        if (done) total += part->counts[SCORES];
    }
    if (done && !(all = malloc(((size_t)total + 1) * 3 * sizeof(float))))
        done = refuse(PyExc_MemoryError, "there is no memory for a search");
    if (done) {
        int32_t *listed = (int32_t *)(all + total);
        /* So short that the lock is held: another thread may keep it for longer. */
        list_near(parts, count, norm, scale, sure, limit, all, listed, all + 2 * total, counts);
        done = (found = PyList_New(count)) != NULL;
        for (int64_t p = 0; done && p < count; listed += counts[p++]) {
            PyObject *some = PyBytes_FromStringAndSize((char *)listed, counts[p] * (Py_ssize_t)sizeof *listed);
            done = some && PyList_SetItem(found, p, some) == 0;
        }
    }
    free(all);
    while (held) release(&parts[--held]);
    free(parts);
    if (!done) Py_CLEAR(found);
    return found;
}

/* Whether a row has its checksum, as `segment.row_sums`. */
static int is_sound(const uint32_t *row, int64_t width, int64_t key) {
    uint32_t sums[LANES] = {0}, weights[LANES], weight = 1, sum = (uint32_t)key * 0x85EBCA6Bu;
    for (int i = 0; i < LANES; i++) weights[i] = weight *= 0x9E3779B1u;
    for (int64_t at = 0; at < width; at += LANES)
        for (int64_t i = 0; i < LANES && at + i < width; i++) {
            sums[i] += row[at + i] * weights[i];
            weights[i] *= weight;
        }
    for (int i = 0; i < LANES; i++) sum += sums[i];
    return sum == row[width];
}

/* exact((vectors, keys, rows, query, *, scores)): of how many of the rows there is no vector, -1 where one fails its
   checksum; their exact scores are written to the last array. */
static PyObject *exact(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *given;
    Arrays arrays;
    if (!PyArg_ParseTuple(args, "O!", &PyTuple_Type, &given)) return NULL;
    int64_t missing = 0;
    int done = take(&arrays, given, "4844.8");
    if (!done) goto end;
    int64_t of = arrays.counts[1], count = arrays.counts[2], width = arrays.counts[3];
    const int64_t *keys = arrays.items[1];
    const int32_t *rows = arrays.items[2];
    const uint32_t *vectors = arrays.items[0];
    const float *query = arrays.items[3];
    double *scores = arrays.items[4];
    if (arrays.counts[0] % (width + 1) || arrays.counts[0] / (width + 1) != of || arrays.counts[4] != count)
        done = refuse(PyExc_ValueError, "arrays of one segment differ in length");
    done = done && are_there(rows, count, of);
    if (!done) goto end;
    Py_BEGIN_ALLOW_THREADS
    for (int64_t i = 0; missing >= 0 && i < count; i++) {
        /* The next row is on its way from memory meanwhile. */
        for (int64_t at = 0; i + 1 < count && at <= width; at += 16) FETCH(vectors + rows[i + 1] * (width + 1) + at);
        const uint32_t *row = vectors + rows[i] * (width + 1);
        scores[i] = dot((const float *)row, query, width);
        missing = is_sound(row, width, keys[rows[i]]) ? missing + (scores[i] != scores[i]) : -1;
    }
    Py_END_ALLOW_THREADS
end:
    release(&arrays);
    return done ? PyLong_FromLongLong(missing) : NULL;
}

static PyMethodDef functions[] = {
    {"bm25", bm25, METH_VARARGS, NULL},
    {"exact", exact, METH_VARARGS, NULL},
    {"find", find, METH_VARARGS, NULL},
    {"holds", holds, METH_VARARGS, NULL},
    {"near", near, METH_VARARGS, NULL},
    {"runs", runs, METH_VARARGS, NULL},
    {"scan", scan, METH_VARARGS, NULL},
    {"shortlist", shortlist, METH_VARARGS, NULL},
    {"use", use, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_kernels", NULL, -1, functions, 0, 0, 0, 0};

PyMODINIT_FUNC PyInit__kernels(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module && PyModule_AddIntConstant(module, "VERSION", VERSION)) Py_CLEAR(module);
    return module;
}
