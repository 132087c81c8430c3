import { Button, Skeleton, Text } from "@mantine/core";
import { useElementSize } from "@mantine/hooks";
import { IconArrowDown } from "@tabler/icons-react";
import { memo, type ReactNode, useEffect, useLayoutEffect, useMemo, useRef, useState } from "react";

import { bytes } from "@/lib/format";

import { codesAfter, plain } from "./ansi";
import { LineText } from "./line-text";
import type { LogDocument } from "./log-document";
import classes from "./logs.module.css";
import { CHUNK, LongScroll, RowLayout, rowsOf } from "./row-layout";
import { useDocument } from "./use-document";

const ROW = 19;
const OVERSCAN = 24;
/** So long after a jump the place stays: the router restores the place of an earlier visit. */
const HOLD = 400;

/** The chosen line, or -1, and how often it was asked to go to one. */
export type Target = { line: number; request: number };

type Props = {
  document: LogDocument;
  label: string;
  isWrapped: boolean;
  isFollowing: boolean;
  onFollow: (is: boolean) => void;
  search: string;
  target: Target;
  onSelect: (line: number) => void;
};

/** The lines of a log around the place that is scrolled to, of any number of lines. */
export function LogView({ document, label, isWrapped, isFollowing, onFollow, search, target, onSelect }: Props) {
  const version = useDocument(document);
  const scroller = useRef<HTMLDivElement>(null);
  const { ref: sizer, width, height } = useElementSize();
  const character = useCharacterWidth(scroller);
  const gutter = Math.max(4, String(document.lineCount).length) + 3;
  const columns = isWrapped && width ? Math.max(20, Math.floor((width - 26) / character) - gutter) : 0;
  const layout = useLayout(document, columns, version);
  const scroll = useRef(new LongScroll()).current;
  const [, redraw] = useState(0);
  const anchor = useRef({ line: 0, within: 0, columns: 0 });
  const heldUntil = useRef(0);

  scroll.resize(layout.rowCount * ROW, height);
  if (isFollowing) scroll.goTo(scroll.lastTop);
  else if (columns) scroll.goTo(layout.rowOf(anchor.current.line) * ROW + anchor.current.within);
  else if (anchor.current.columns) scroll.goTo(anchor.current.line * ROW);
  const topRow = Math.floor(scroll.top / ROW);
  const topLine = layout.lineAt(topRow);
  anchor.current = { line: topLine, within: scroll.top - layout.rowOf(topLine) * ROW, columns };
  const first = layout.lineAt(Math.max(0, topRow - OVERSCAN));
  const last = layout.lineAt(topRow + Math.ceil(height / ROW) + OVERSCAN);

  useEffect(() => document.need(first, last), [document, first, last, version]);
  useLayoutEffect(() => {
    const element = scroller.current;
    const place = scroll.top + scroll.shift;
    if (element && height && Math.abs(element.scrollTop - place) >= 1) element.scrollTop = place;
  });
  useLayoutEffect(() => {
    if (!target.request || !document.isLoaded) return;
    onFollow(false);
    const line = Math.min(target.line, document.lineCount - 1);
    anchor.current = { line: Math.max(0, line - Math.floor(height / ROW / 3)), within: 0, columns };
    scroll.goTo(layout.rowOf(anchor.current.line) * ROW);
    heldUntil.current = performance.now() + HOLD;
    redraw((count) => count + 1);
  }, [target.request, document, document.isLoaded, height > 0]); // eslint-disable-line react-hooks/exhaustive-deps

  function onScroll() {
    const element = scroller.current!;
    if (!height || Math.abs(element.scrollTop - (scroll.top + scroll.shift)) < 1) return;
    if (performance.now() < heldUntil.current) {
      element.scrollTop = scroll.top + scroll.shift;
      return;
    }
    const isAtEnd = element.scrollTop >= element.scrollHeight - element.clientHeight - 2;
    if (isFollowing && isAtEnd) return; // the log or the window has grown
    const moved = scroll.scrolled(element.scrollTop);
    if (moved !== null) element.scrollTop = moved;
    const line = layout.lineAt(Math.floor(scroll.top / ROW));
    anchor.current = { line, within: scroll.top - layout.rowOf(line) * ROW, columns };
    if (isFollowing !== isAtEnd && (isFollowing || !document.isComplete)) onFollow(isAtEnd);
    redraw((count) => count + 1);
  }

  return (
    <div className={classes.frame} ref={sizer}>
      <div
        ref={scroller}
        className={classes.scroller}
        onScroll={onScroll}
        tabIndex={0}
        role="region"
        aria-label={label}
        data-wrapped={isWrapped || undefined}
      >
        <div style={{ height: Math.max(scroll.barHeight, 1) }} className={classes.bar}>
          <div className={classes.rows} style={{ transform: `translateY(${layout.rowOf(first) * ROW + scroll.shift}px)` }}>
            <Rows {...{ document, first, last, columns, gutter, search, onSelect, version }} chosen={target.line} />
          </div>
        </div>
      </div>
      {!isFollowing && !document.isComplete && document.isLoaded && (
        <Button className={classes.resume} leftSection={<IconArrowDown size={14} />} onClick={() => onFollow(true)}>
          Follow the end
        </Button>
      )}
    </div>
  );
}

/** The layout for this width, with the texts of the chunks that are loaded. */
function useLayout(document: LogDocument, columns: number, version: number): RowLayout {
  const layout = useMemo(() => new RowLayout(columns), [document, columns]); // eslint-disable-line react-hooks/exhaustive-deps
  const measured = useRef<{ layout: RowLayout; chunks: Map<number, number> }>({ layout, chunks: new Map() });
  useMemo(() => {
    if (measured.current.layout !== layout) measured.current = { layout, chunks: new Map() };
    layout.resize(document.lineCount);
    if (!columns) return;
    const { chunks } = measured.current;
    const end = Math.ceil(document.lineCount / CHUNK);
    for (let chunk = 0; chunk < end; chunk++) {
      const lines = document.chunk(chunk);
      if (!lines || (chunks.get(chunk) === lines.length && chunk < end - 1)) continue;
      layout.measure(chunk, lines.map(plain));
      chunks.set(chunk, lines.length);
    }
  }, [layout, document, columns, version]);
  return layout;
}

/** The width of a character of the log's font. */
function useCharacterWidth(within: { current: HTMLElement | null }): number {
  const [width, setWidth] = useState(7.5);
  useLayoutEffect(() => {
    const probe = window.document.createElement("span");
    probe.textContent = "0".repeat(100);
    probe.className = classes.probe!;
    within.current?.append(probe);
    const measure = () => setWidth(probe.getBoundingClientRect().width / 100 || 7.5);
    measure();
    void window.document.fonts?.ready.then(measure);
    return () => probe.remove();
  }, [within]);
  return width;
}

type RowsProps = Pick<Props, "document" | "search" | "onSelect"> & {
  first: number;
  last: number;
  columns: number;
  gutter: number;
  chosen: number;
  version: number;
};

function Rows({ document, first, last, columns, gutter, search, chosen, onSelect }: RowsProps) {
  const rows: ReactNode[] = [];
  let codes = "";
  for (let before = first - (first % CHUNK); before < first; before++) codes = codesAfter(codes, document.line(before) ?? "");
  for (let number = first; number <= last && number < document.lineCount; number++) {
    const text = document.line(number);
    const gap = document.gaps.find(({ line }) => line === number);
    rows.push(
      <Row
        key={number}
        {...{ number, text, columns, gutter, search, codes, onSelect }}
        isChosen={number === chosen}
        gap={gap ? gap.length : 0}
      />,
    );
    codes = codesAfter(codes, text ?? "");
  }
  return rows;
}

type RowProps = Pick<RowsProps, "columns" | "gutter" | "search" | "onSelect"> & {
  number: number;
  text: string | undefined;
  codes: string;
  isChosen: boolean;
  gap: number;
};

const Row = memo(function Row({ number, text, codes, columns, gutter, search, isChosen, gap, onSelect }: RowProps) {
  const shown = text === undefined ? "" : plain(text);
  return (
    <div
      className={classes.row}
      style={{ height: rowsOf(shown, columns) * ROW }}
      data-chosen={isChosen || undefined}
      data-line={number + 1}
      data-gap={gap || undefined}
      title={gap ? `${bytes(gap)} before this line were not kept.` : undefined}
    >
      <a
        className={classes.number}
        style={{ width: `${gutter}ch` }}
        href={`#L${number + 1}`}
        tabIndex={-1}
        aria-label={`Line ${number + 1}`}
        onClick={(event) => {
          event.preventDefault();
          onSelect(number);
        }}
      >
        {number + 1}
      </a>
      {text === undefined ? (
        <Skeleton height={9} width={`${20 + ((number * 37) % 50)}ch`} my={5} />
      ) : (
        <LineText text={text} codes={codes} search={search} />
      )}
    </div>
  );
});

export function NoLines({ children }: { children: ReactNode }) {
  return (
    <div className={classes.empty}>
      <Text c="dimmed" size="sm" component="div">
        {children}
      </Text>
    </div>
  );
}
