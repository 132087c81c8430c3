/** The table of runs: rows of a fixed height, drawn only where they are visible, moved and selected by keys. */
import { Button } from "@mantine/core";
import { useLocalStorage, useMediaQuery } from "@mantine/hooks";
import { useNavigate } from "@tanstack/react-router";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, type MouseEvent, type ReactNode, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";

import { Failure, Loading } from "@/components/states";
import { useNow } from "@/components/time";
import { plural } from "@/lib/format";
import type { Column } from "./columns";
import type { SortOrder } from "./filters";
import { RunHead } from "./run-head";
import type { ListState, Row, RunList } from "./run-list";
import { RunCard, RunRow, rowId } from "./run-row";
import classes from "./run-table.module.css";

const ROW_HEIGHT = 34;
const CARD_HEIGHT = 66;
const HEAD_HEIGHT = 35;
const CHECK_WIDTH = 36;
const OVERSCAN = 30;

type Props = {
  workspace: string;
  list: RunList;
  state: ListState;
  columns: Column[];
  sort: SortOrder;
  onSort: (key: string) => void;
  onMove: (id: string, before: string) => void;
  selected: ReadonlySet<string>;
  onSelect: (selected: ReadonlySet<string>) => void;
  empty: ReactNode;
};

export function RunTable({ workspace, list, state, columns, sort, onSort, onMove, selected, onSelect, empty }: Props) {
  const { rows } = state;
  const scroll = useRef<HTMLDivElement>(null);
  const navigate = useNavigate();
  const isPhone = useMediaQuery("(max-width: 48em)", false, { getInitialValueInEffect: false }) ?? false;
  const now = useNow(10);
  const [widths, setWidths] = useLocalStorage<Record<string, number>>({ key: "windlass.column-widths", defaultValue: {}, getInitialValueInEffect: false });
  const [active, setActive] = useState<string | null>(null);
  const anchor = useRef<string | null>(null);
  const pathOf = (id: string) => `/workspaces/${encodeURIComponent(workspace)}/runs/${encodeURIComponent(id)}`;
  const context = useMemo(() => ({ now, hrefOf: (id: string) => `${document.baseURI.replace(/\/$/, "")}${pathOf(id)}` }), [now, workspace]); // eslint-disable-line react-hooks/exhaustive-deps
  const widthOf = ({ id, width }: Column) => widths[id] ?? width;
  const head = isPhone ? 0 : HEAD_HEIGHT;
  const height = isPhone ? CARD_HEIGHT : ROW_HEIGHT;
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroll.current,
    estimateSize: () => height,
    overscan: OVERSCAN,
    scrollMargin: head,
    scrollPaddingStart: head,
  });
  useEffect(() => virtual.measure(), [height]); // eslint-disable-line react-hooks/exhaustive-deps
  const first = virtual.range?.startIndex ?? 0;
  const last = virtual.range?.endIndex ?? 0;
  const isAtTop = (virtual.scrollOffset ?? 0) < height;
  useEffect(() => list.look({ first, last, isAtTop }), [list, first, last, isAtTop]);
  useKeptPosition(scroll, rows, first, isAtTop, height);
  useEffect(() => void scroll.current?.scrollTo({ top: 0 }), [list]);

  const activeIndex = useMemo(() => (active === null ? -1 : rows.findIndex(({ id }) => id === active)), [rows, active]);

  function select(id: string, isRange: boolean) {
    const next = new Set(selected);
    const from = isRange && anchor.current ? rows.findIndex((row) => row.id === anchor.current) : -1;
    const to = rows.findIndex((row) => row.id === id);
    if (from >= 0) for (const row of rows.slice(Math.min(from, to), Math.max(from, to) + 1)) next.add(row.id);
    else if (!next.delete(id)) next.add(id);
    anchor.current = id;
    onSelect(next);
  }

  function go(index: number, extends_: boolean) {
    const row = rows[Math.min(Math.max(index, 0), rows.length - 1)];
    if (!row) return;
    if (extends_) onSelect(new Set([...selected, ...(active ? [active] : []), row.id]));
    setActive(row.id);
    virtual.scrollToIndex(rows.indexOf(row));
  }

  function onKey(event: KeyboardEvent) {
    if (event.target !== scroll.current) return;
    const isAll = event.key === "a" && (event.ctrlKey || event.metaKey);
    if (!isAll && (event.ctrlKey || event.metaKey || event.altKey)) return;
    const page = Math.max(1, last - first - 1);
    const moves: Record<string, number> = {
      ArrowDown: activeIndex + 1, ArrowUp: activeIndex - 1, j: activeIndex + 1, k: activeIndex - 1,
      PageDown: activeIndex + page, PageUp: activeIndex - page, Home: 0, End: rows.length - 1,
    };
    if (event.key in moves) go(moves[event.key]!, event.shiftKey);
    else if (isAll) onSelect(new Set(rows.map(({ id }) => id)));
    else if (event.key === "Escape" && selected.size) onSelect(new Set());
    else if (active !== null && event.key === "Enter") void navigate({ to: pathOf(active) });
    else if (active !== null && (event.key === "x" || event.key === " ")) select(active, event.shiftKey);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  function onClick(event: MouseEvent) {
    const element = event.target as HTMLElement;
    const id = element.closest<HTMLElement>("[data-row]")?.dataset.row;
    if (!id) return;
    setActive(id);
    if (element.closest("[data-check]") || event.shiftKey) {
      select(id, event.shiftKey);
      if (event.shiftKey) getSelection()?.removeAllRanges();
      if (element.closest("a")) event.preventDefault();
    } else if (element.closest("[data-run]") && event.button === 0 && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      void navigate({ to: pathOf(id) });
    }
  }

  function selectAll() {
    onSelect(rows.every(({ id }) => selected.has(id)) ? new Set() : new Set(rows.map(({ id }) => id)));
  }

  const track = (column: Column) => (column.id === "name" && !widths.name ? `minmax(${column.width}px, 1fr)` : `${widthOf(column)}px`);
  const total = columns.reduce((sum, column) => sum + widthOf(column), CHECK_WIDTH);
  const Item = isPhone ? RunCard : RunRow;
  return (
    <div className={classes.box}>
      {state.newRuns > 0 && (
        <Button
          className={classes.newRuns}
          radius="xl"
          onClick={() => {
            list.showNew();
            scroll.current?.scrollTo({ top: 0 });
          }}
        >
          {plural(state.newRuns, "new run")}
        </Button>
      )}
      {state.isReady && !rows.length && !state.error ? (
        <div className={classes.scroll}>{empty}</div>
      ) : (
        <div
          ref={scroll}
          className={classes.scroll}
          role="grid"
          aria-label="Runs"
          aria-multiselectable
          aria-rowcount={state.isComplete ? rows.length + 1 : -1}
          aria-busy={!state.isReady}
          aria-activedescendant={active !== null && activeIndex >= 0 ? rowId(active) : undefined}
          tabIndex={0}
          onKeyDown={onKey}
          onClick={onClick}
          onFocus={(event) => event.target === scroll.current && active === null && rows[0] && setActive(rows[0].id)}
        >
          <div role="presentation" style={{ ["--columns" as string]: columns.map(track).join(" "), minWidth: isPhone ? undefined : total }}>
            {!isPhone && (
              <RunHead
                {...{ columns, sort, widthOf, onSort, onMove }}
                onResize={(id, width) => setWidths((known) => ({ ...known, [id]: Math.round(width) }))}
                isAllSelected={rows.length > 0 && selected.size >= rows.length && rows.every(({ id }) => selected.has(id))}
                isSomeSelected={selected.size > 0}
                onSelectAll={selectAll}
              />
            )}
            <div role="rowgroup" className={classes.body} style={{ height: virtual.getTotalSize() }}>
              {virtual.getVirtualItems().map(({ index, start }) => {
                const row = rows[index]!;
                return (
                  <Item
                    key={row.id}
                    {...{ row, index, columns, context }}
                    top={start - head}
                    isSelected={selected.has(row.id)}
                    isActive={row.id === active}
                  />
                );
              })}
            </div>
          </div>
        </div>
      )}
      {!state.isReady && !state.error && (
        <div className={classes.message} style={{ position: "absolute", inset: `${head}px 0 30px` }}>
          <Loading rows={12} height={22} />
        </div>
      )}
      {state.error ? (
        <div className={classes.message} style={rows.length ? undefined : { position: "absolute", inset: 0, top: head }}>
          <Failure error={state.error} retry={() => list.retry()} />
        </div>
      ) : null}
      <div className={classes.foot}>
        <span>{footText(state, selected.size)}</span>
        <span className={classes.keys} aria-hidden>
          <span>↑ ↓ move</span>
          <span>Enter opens</span>
          <span>x selects</span>
          <span>f filters</span>
        </span>
      </div>
    </div>
  );
}

function footText({ rows, isReady, isComplete }: ListState, selected: number): string {
  if (!isReady) return "Loading …";
  const count = isComplete ? plural(rows.length, "run") : `${rows.length.toLocaleString("en-US")} runs loaded, more follow`;
  return selected ? `${count} · ${selected} selected` : count;
}

/** Keeps the first visible row where it is when rows above it come or go. */
function useKeptPosition(scroll: React.RefObject<HTMLDivElement | null>, rows: readonly Row[], first: number, isAtTop: boolean, height: number) {
  const before = useRef<{ rows: readonly Row[]; id: string | undefined; first: number; isAtTop: boolean }>({ rows, id: undefined, first, isAtTop });
  useLayoutEffect(() => {
    const { rows: old, id, first: at, isAtTop: wasAtTop } = before.current;
    if (old !== rows && id !== undefined && !wasAtTop && scroll.current && rows[at]?.id !== id) {
      const now = rows.findIndex((row) => row.id === id);
      if (now >= 0) scroll.current.scrollTop += (now - at) * height;
    }
    before.current = { rows, id: rows[first]?.id, first, isAtTop };
  });
}
