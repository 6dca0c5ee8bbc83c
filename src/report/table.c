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

void larder__table_text(FILE *to, const larder__table *t) {
    char cell[LARDER__CELL_BYTES];
    const char *help;
    int width[COLUMNS_MAX];
    find_widths(t, width);
    for (size_t c = 0; c < t->columns; c++) {
        fputs(c ? "  " : "", to);
        pad(to, t->head(t->arg, c, &help), width[c], c > 0);
    }
    fputc('\n', to);
    for (size_t c = 0; c < t->columns; c++) {
        fputs(c ? "  " : "", to);
        for (int i = 0; i < width[c]; i++)
            fputc('-', to);
    }
    fputc('\n', to);
    for (size_t r = 0; r < t->rows; r++) {
        for (size_t c = 0; c < t->columns; c++) {
            shown_cell(t, r, c, cell);
            fputs(c ? "  " : "", to);
            pad(to, cell, width[c], c > 0);
        }
        fputc('\n', to);
    }
}

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
