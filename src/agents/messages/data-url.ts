/** Returns true for a `data:` URL. To parse it as a URL would take longer than to check its base64. */
export const isDataUrl = (text: string): boolean => /^data:/i.test(text);
