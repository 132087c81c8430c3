import { useCallback, useSyncExternalStore } from "react";

type Store = { version: number; subscribe: (listener: () => void) => () => void };

/** The version of something that changes; the component is drawn anew when it does, at most once a frame. */
export function useDocument(store: Store): number {
  const subscribe = useCallback(
    (listener: () => void) => {
      let frame = 0;
      const stop = store.subscribe(() => {
        frame ||= requestAnimationFrame(() => ((frame = 0), listener()));
      });
      return () => (stop(), cancelAnimationFrame(frame));
    },
    [store],
  );
  return useSyncExternalStore(subscribe, () => store.version);
}
