/** Keys: `/` and Ctrl-K open the palette, `g` and a letter go to a page, `?` shows all keys. */
import { spotlight } from "@mantine/spotlight";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useRef } from "react";

import { useMay } from "@/api/session";
import { PLACES } from "./navigation";

const SECOND_KEY_MS = 1500;

export function useKeys(workspace: string, showKeys: () => void): void {
  const navigate = useNavigate();
  const may = useMay();
  const pressedAt = useRef(-Infinity); // outlives a rendering between the two keys
  useEffect(() => {
    function onKey(event: KeyboardEvent) {
      const element = event.target as HTMLElement;
      const typesInto = element.closest("input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable=true]");
      if (typesInto || element.closest("[role=dialog]") || event.ctrlKey || event.metaKey || event.altKey) return;
      const isSecond = event.timeStamp - pressedAt.current < SECOND_KEY_MS;
      pressedAt.current = -Infinity;
      const place = isSecond && PLACES.find(({ key, permission }) => key === event.key && may(permission));
      if (place) void navigate({ to: `/workspaces/${encodeURIComponent(workspace)}${place.path}` });
      else if (event.key === "g") pressedAt.current = event.timeStamp;
      else if (event.key === "/") spotlight.open();
      else if (event.key === "?") showKeys();
      else return;
      event.preventDefault();
    }
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [navigate, may, workspace, showKeys]);
}
