#include "report/table.h"

#include "base/escape.h"
#include "report/svg.h"

#include <string.h>

enum { COLUMNS_MAX = 64, LONG = 40 }; /* LONG: characters of a name that a page breaks */

/* Bytes that continue a UTF-8 character take no room. */
static int width_of(const char *s) {
    int n = 0;
    for (; *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

static void pad(FILE *to, const char *text, int width, bool right) {
    int blanks = width - width_of(text);
    for (int i = 0; right && i < blanks; i++)
        fputc(' ', to);
    fputs(text, to);
    for (int i = 0; !right && i < blanks; i++)
        fputc(' ', to);
}

/* Names of runs come from anywhere. */
static void shown_cell(const larder__table *t, size_t row, size_t column,
                       char out[LARDER__CELL_BYTES]) {
    char cell[LARDER__CELL_BYTES];
    t->cell(t->arg, row, column, cell);
    larder__shown(out, LARDER__CELL_BYTES, cell);
}

static void find_widths(const larder__table *t, int width[COLUMNS_MAX]) {
    char cell[LARDER__CELL_BYTES];
    const char *help;
    for (size_t c = 0; c < t->columns; c++) {
        width[c] = width_of(t->head(t->arg, c, &help));
        for (size_t r = 0; r < t->rows; r++) {
            shown_cell(t, r, c, cell);
            int n = width_of(cell);
            width[c] = n > width[c] ? n : width[c];
        }
    }
}

/* ---- as text --------------------------------------------------------------------------------- */

enum { GAP = 2 }; /* between columns */

/* Which columns are printed, and in which part of the table: parts stand below one another, each
 * with the first column. */
typedef struct choice {
    size_t at[COLUMNS_MAX], part[COLUMNS_MAX], count, parts;
    int width[COLUMNS_MAX];
    bool chosen[COLUMNS_MAX];
} choice;

static void choose(choice *c, size_t column, size_t part) {
    c->at[c->count] = column;
    c->part[c->count++] = part;
    c->chosen[column] = true;
    c->parts = part + 1;
}

static bool is_kept(const larder__table *t, size_t column) {
    return !t->kept || t->kept(t, column);
}

/* What is kept, then what else fits beside the last of that. */
static void choose_columns(choice *c, const larder__table *t) {
    size_t all = 0, used, part = 0;
    find_widths(t, c->width);
    for (size_t i = 0; i < t->columns; i++)
        all += (size_t)c->width[i] + (i ? GAP : 0);
    bool fits = t->room == 0 || all <= t->room;
    used = (size_t)c->width[0];
    for (size_t i = 1; i < t->columns; i++) {
        size_t more = (size_t)c->width[i] + GAP;
        if (!fits && !is_kept(t, i))
            continue;
        if (!fits && used + more > t->room && used > (size_t)c->width[0]) {
            used = (size_t)c->width[0];
            part++;
        }
        used += more;
        choose(c, i, part);
    }
    for (size_t i = 1; !fits && i < t->columns; i++)
        if (!c->chosen[i] && used + (size_t)c->width[i] + GAP <= t->room) {
            used += (size_t)c->width[i] + GAP;
            choose(c, i, part);
        }
}

static void print_line(FILE *to, const larder__table *t, const choice *c, size_t part,
                       void (*put)(FILE *, const larder__table *, size_t row, size_t column,
                                   int width),
                       size_t row) {
    put(to, t, row, 0, c->width[0]);
    for (size_t i = 0; i < c->count; i++)
        if (c->part[i] == part) {
            fprintf(to, "%*s", GAP, "");
            put(to, t, row, c->at[i], c->width[c->at[i]]);
        }
    fputc('\n', to);
}

static void put_head(FILE *to, const larder__table *t, size_t row, size_t column, int width) {
    (void)row;
    const char *help;
    pad(to, t->head(t->arg, column, &help), width, column > 0);
}

static void put_rule(FILE *to, const larder__table *t, size_t row, size_t column, int width) {
    (void)t, (void)row, (void)column;
    for (int i = 0; i < width; i++)
        fputc('-', to);
}

static void put_cell(FILE *to, const larder__table *t, size_t row, size_t column, int width) {
    char cell[LARDER__CELL_BYTES];
    shown_cell(t, row, column, cell);
    pad(to, cell, width, column > 0);
}

static void name_left_out(FILE *to, const larder__table *t, const choice *c) {
    const char *help, *before = "left out, for want of room: ";
    for (size_t i = 1; i < t->columns; i++)
        if (!c->chosen[i]) {
            fprintf(to, "%s%s", before, t->head(t->arg, i, &help));
            before = ", ";
        }
    if (c->count + 1 < t->columns)
        fputs("; --wide shows them\n", to);
}

void larder__table_text(FILE *to, const larder__table *t) {
    choice c = {.parts = 1};
    choose_columns(&c, t);
    for (size_t part = 0; part < c.parts; part++) {
        fputs(part ? "\n" : "", to);
        print_line(to, t, &c, part, put_head, 0);
        print_line(to, t, &c, part, put_rule, 0);
        for (size_t r = 0; r < t->rows; r++)
            print_line(to, t, &c, part, put_cell, r);
    }
    name_left_out(to, t, &c);
}

/* ---- for pages ------------------------------------------------------------------------------- */

/* A bar would begin another cell, and names come from anywhere. */
static void md_text(FILE *to, const char *s) {
    while (*s) {
        char one[LARDER__SHOWN_BYTES];
        s += larder__shown_one(one, s);
        if (strchr("|\\`*_<>[]", one[0]))
            fputc('\\', to);
        fputs(one, to);
    }
}

void larder__table_md(FILE *to, const larder__table *t) {
    char cell[LARDER__CELL_BYTES];
    const char *help;
    fputc('|', to);
    for (size_t c = 0; c < t->columns; c++) {
        fputc(' ', to);
        md_text(to, t->head(t->arg, c, &help));
        fputs(" |", to);
    }
    fputs("\n|", to);
    for (size_t c = 0; c < t->columns; c++)
        fputs(c ? "---:|" : "---|", to);
    for (size_t r = 0; r < t->rows; r++) {
        fputs("\n|", to);
        for (size_t c = 0; c < t->columns; c++) {
            t->cell(t->arg, r, c, cell);
            fputc(' ', to);
            md_text(to, cell);
            fputs(" |", to);
        }
    }
    fputc('\n', to);
}

void larder__table_html(FILE *to, const larder__table *t) {
    char cell[LARDER__CELL_BYTES];
    fprintf(to,
            "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"%s\"><table>\n"
            "<thead><tr>",
            t->title ? t->title : "figures");
    for (size_t c = 0; c < t->columns; c++) {
        const char *help = "";
        const char *name = t->head(t->arg, c, &help);
        fputs("<th scope=\"col\" title=\"", to);
        larder__xml_text(to, help);
        fputs("\">", to);
        larder__xml_text(to, name);
        fputs("</th>", to);
    }
    fputs("</tr></thead>\n<tbody>\n", to);
    for (size_t r = 0; r < t->rows; r++) {
        fputs("<tr>", to);
        for (size_t c = 0; c < t->columns; c++) {
            t->cell(t->arg, r, c, cell);
            fputs(c ? "<td" : "<th scope=\"row\"", to);
            fputs(c == 0 && width_of(cell) > LONG ? " class=\"long\">" : ">", to);
            if (c == 0 && t->coloured)
                fprintf(to, "<i style=\"background:%s\"></i>", larder__chart_colour(r));
            larder__xml_text(to, cell);
            fputs(c ? "</td>" : "</th>", to);
        }
        fputs("</tr>\n", to);
    }
    fputs("</tbody></table></div>\n", to);
}
