import { useEffect, useRef } from "react";

/** After another page is opened, the keyboard and screen readers begin at its content, unless the page takes the focus. */
export function useFocusOnNavigation(path: string): void {
  const before = useRef(path);
  useEffect(() => {
    if (before.current === path) return;
    before.current = path;
    const isInMenu = document.activeElement?.closest("nav");
    if (isInMenu || document.activeElement === document.body || document.activeElement === null) {
      document.getElementById("content")?.focus({ preventScroll: true });
    }
  }, [path]);
}
