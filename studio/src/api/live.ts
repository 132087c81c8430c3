/** Keeps what pages show up to date, by the stream of changes of a workspace. */
import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";

import { follow } from "./events";

const listeners = new Set<(ids: string[] | null) => void>();

/** Calls `listener` with the ids of runs that changed; with null when any may have changed. */
export function onRunsChanged(listener: (ids: string[] | null) => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Follows the changes of a workspace and refetches what they concern. Returns whether the server can be reached. */
export function useLiveUpdates(workspace: string): boolean {
  const client = useQueryClient();
  const [isConnected, setConnected] = useState(true);
  useEffect(() => {
    const stop = new AbortController();
    let hasLost = false;
    follow({
      path: () => `api/v1/workspaces/${encodeURIComponent(workspace)}/stream`,
      signal: stop.signal,
      onConnection: (is) => {
        setConnected(is);
        if (is && hasLost) {
          void client.invalidateQueries(); // changes of the meantime were not announced
          listeners.forEach((listener) => listener(null));
        }
        hasLost = !is;
      },
      onEvent: ({ event, data }) => {
        if (event === "runs") {
          const ids = (data as { ids: string[] | null }).ids;
          listeners.forEach((listener) => listener(ids));
          void client.invalidateQueries({ queryKey: ["runs", workspace] });
          void client.invalidateQueries({ queryKey: ["experiments", workspace] });
          if (ids === null) void client.invalidateQueries({ queryKey: ["run", workspace] });
          else ids.forEach((id) => void client.invalidateQueries({ queryKey: ["run", workspace, id] }));
        } else if (event === "targets") {
          void client.invalidateQueries({ queryKey: ["targets", workspace] });
        }
      },
    }).catch(() => undefined); // refused: the page shows why by its own requests
    return () => stop.abort();
  }, [client, workspace]);
  return isConnected;
}
