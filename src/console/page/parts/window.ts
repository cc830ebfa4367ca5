import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { RefObject } from "preact";

/** The rendered rows of a long list: the visible ones, and some around them. */
export interface RowWindow {
  readonly box: RefObject<HTMLDivElement | null>;
  readonly first: number;
  /** The first one that is not in it. */
  readonly end: number;
  onScroll(): void;
  /** Scrolls until a row is visible. */
  reveal(row: number): void;
}
const around = 8;

/** Keeps the part of a list that its box shows. Every row has the same height. */
export function useRowWindow(count: number, rowHeight: number): RowWindow {
  const box = useRef<HTMLDivElement>(null);
  const [{ top, height }, setView] = useState({ top: 0, height: 600 });
  const onScroll = (): void => {
    const { scrollTop = 0, clientHeight = 0 } = box.current ?? {};
    const next = { top: scrollTop - (scrollTop % rowHeight), height: clientHeight };
    setView((before) => (before.top === next.top && before.height === next.height ? before : next));
  };
  useLayoutEffect(() => {
    onScroll();
    const observer = new ResizeObserver(onScroll);
    if (box.current) observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(onScroll, [count]); // a shorter list moves the place
  const reveal = (row: number): void => {
    const { current } = box;
    if (!current) return;
    const at = row * rowHeight;
    if (at < current.scrollTop) current.scrollTop = at;
    else if (at + rowHeight > current.scrollTop + current.clientHeight) {
      current.scrollTop = at + rowHeight - current.clientHeight;
    }
    onScroll();
  };
  const first = Math.max(0, Math.floor(top / rowHeight) - around);
  const end = Math.min(count, Math.ceil((top + height) / rowHeight) + around);
  return { box, first: Math.min(first, end), end, onScroll, reveal };
}
