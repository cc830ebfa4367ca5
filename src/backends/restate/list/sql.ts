/** A text that SQL can split. Its first part and its last are empty, because the stored JSON adds quotes. */
export const toSqlText = (parts: readonly (string | number)[]): string => `|${parts.join("|")}|`;
/** SQL for a part of such a text, by its index. */
export const toPart = (index: number): string => `split_part(value_utf8, '|', ${index + 2})`;
/** SQL for a text. */
export const quote = (text: string): string => `'${text.replaceAll("'", "''")}'`;
/** A number as a text of the same length as others, so that both have the same order. */
export const toSortable = (number: number, length = 15): string => String(number).padStart(length, "0");
