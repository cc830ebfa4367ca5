import type { Store } from "../store/store.ts";

interface RemovalParts {
  readonly store: Store;
  readonly key: string;
  /** The UTC day. */
  readonly today: number;
  /** The names of the turns that have a place in the conversation. Those of steps are not in the file. */
  readonly turns: readonly string[];
  readonly dropTurn: (id: string) => void;
  /** Writes in one transaction. `done` is called directly after its commit. */
  readonly write: <T>(work: () => T, done?: (value: T) => void) => Promise<T>;
}

/**
 * Deletes a conversation. Returns false if there is none.
 *
 * RC1. One transaction removes its row and its turns. From then on it is not found, and no turn of it runs after a crash. Its
 *     usage stays, and belongs to no conversation.
 * RC2. Its messages are removed a few at a time: those of a long conversation would block requests. If the process dies
 *     meanwhile, the next one removes the rest (`Retention`).
 * RC3. It resolves when nothing is left.
 */
export async function removeConversation(parts: RemovalParts): Promise<boolean> {
  const { store, key, today, turns, dropTurn, write } = parts;
  const { conversations } = store;
  const { number, isPurged } = await write(
    () => {
      const hidden = conversations.hide(key);
      store.usage.release(key, today);
      for (const id of turns) store.removeTurn(id);
      return { number: hidden, isPurged: hidden === undefined || conversations.purge(hidden) };
    },
    () => turns.forEach(dropTurn),
  );
  if (number === undefined) return false;
  for (let isDone = isPurged; !isDone;) isDone = await write(() => conversations.purge(number));
  return true;
}
