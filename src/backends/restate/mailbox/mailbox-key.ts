/** The key of the object that keeps the events of a name and key. A name has no spaces. */
export const toMailboxKey = ({ name, key = "" }: { name: string; key?: string | undefined }): string =>
  `${name} ${key}`;
