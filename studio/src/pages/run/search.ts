/** What the address of a run's page says beside its id: the tab, and what is chosen in it. */
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback } from "react";

export type RunSearch = Record<string, string | undefined>;

/** The search of the address, and a function that changes some of it (and its hash). */
export function useRunSearch(): [RunSearch, (change: RunSearch, hash?: string) => void] {
  const search = useSearch({ strict: false }) as RunSearch;
  const navigate = useNavigate();
  const change = useCallback(
    (some: RunSearch, hash?: string) =>
      void navigate({
        to: ".",
        search: ((before: RunSearch) => ({ ...before, ...some })) as never,
        hash: hash ?? true,
        replace: true,
        resetScroll: false,
        hashScrollIntoView: false,
      }),
    [navigate],
  );
  return [search, change];
}
