import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/** The distance from the end of the page within which a reader follows new words. */
const near = 80;

export interface StickyEnd {
  /** True if the reader left the end. */
  readonly isAway: boolean;
  /** The element whose growth is followed. */
  readonly box: RefObject<HTMLDivElement | null>;
  /** Adds content above without moving what is shown. */
  keepPlace(add: () => Promise<unknown>): Promise<void>;
}

/** Keeps the end of the page in view while `content` grows, unless the reader has scrolled up or opens something. */
export function useStickyEnd(content: unknown): StickyEnd {
  const [isAway, setAway] = useState(false);
  const follows = useRef(true);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let last = scrollY;
    let isOpening = false;
    const set = (isFollowed: boolean): void => {
      follows.current = isFollowed;
      setAway(!isFollowed);
    };
    const onScroll = (): void => {
      // Only the reader scrolls up. The end also moves away when words arrive between a scroll and its event.
      if (isNear() || scrollY < last) set(isNear());
      last = scrollY;
      isOpening = false;
    };
    const onClick = ({ target }: Event): void => {
      isOpening = target instanceof Element && target.closest("summary, button") !== null;
    };
    const observer = new ResizeObserver(() => {
      if (isOpening) set(isNear());
      else if (follows.current) toEnd();
    });
    const found = box.current!; // rendered by now
    observer.observe(found);
    found.addEventListener("click", onClick);
    addEventListener("scroll", onScroll, { passive: true });
    return () => {
      observer.disconnect();
      found.removeEventListener("click", onClick);
      removeEventListener("scroll", onScroll);
    };
  }, []);
  useLayoutEffect(() => {
    if (follows.current) toEnd();
  }, [content]);
  return {
    isAway,
    box,
    async keepPlace(add) {
      follows.current = false;
      const below = document.documentElement.scrollHeight - scrollY;
      await add();
      requestAnimationFrame(() => scrollTo(0, document.documentElement.scrollHeight - below));
    },
  };
}

const isNear = (): boolean => innerHeight + scrollY >= document.documentElement.scrollHeight - near;

/** Shows the end of the page, which is followed from then on. */
export const toEnd = (): void => scrollTo(0, document.documentElement.scrollHeight);
