/** The heading of the table: sort by click, order by dragging, width by the edge. */
import { UnstyledButton } from "@mantine/core";
import { type PointerEvent, useState } from "react";

import type { Column } from "./columns";
import type { SortOrder } from "./filters";
import classes from "./run-table.module.css";

export const LEAST_WIDTH = 60;

type Props = {
  columns: Column[];
  sort: SortOrder;
  widthOf: (column: Column) => number;
  isAllSelected: boolean;
  isSomeSelected: boolean;
  onSelectAll: () => void;
  onSort: (key: string) => void;
  onMove: (id: string, before: string) => void;
  onResize: (id: string, width: number) => void;
};

export function RunHead(props: Props) {
  const { columns, sort, isAllSelected, isSomeSelected, onSelectAll, onSort, onMove } = props;
  const [dragged, setDragged] = useState<string | null>(null);
  const [over, setOver] = useState<string | null>(null);
  function drop() {
    if (dragged && over && dragged !== over) onMove(dragged, over);
    setDragged(null);
    setOver(null);
  }
  return (
    <div role="rowgroup" className={classes.head}>
      <div role="row" aria-rowindex={1} className={classes.headRow}>
        <div role="columnheader" className={classes.check}>
          <input
            type="checkbox"
            aria-label="Select all loaded runs"
            checked={isAllSelected}
            ref={(input) => void (input && (input.indeterminate = isSomeSelected && !isAllSelected))}
            onChange={onSelectAll}
          />
        </div>
        {columns.map((column) => {
          const isSorted = column.sort !== undefined && column.sort === sort.key;
          return (
            <div
              key={column.id}
              role="columnheader"
              aria-sort={isSorted ? (sort.isDescending ? "descending" : "ascending") : undefined}
              className={classes.headCell}
              data-number={column.isNumber}
              data-over={(dragged && over === column.id) || undefined}
              draggable
              onDragStart={() => setDragged(column.id)}
              onDragOver={(event) => (event.preventDefault(), setOver(column.id))}
              onDrop={drop}
              onDragEnd={drop}
            >
              {column.sort ? (
                <UnstyledButton className={classes.sort} onClick={() => onSort(column.sort!)} title={`Sort by ${column.label}`}>
                  {column.label}
                </UnstyledButton>
              ) : (
                <span className={classes.sort} title={column.label}>
                  {column.label}
                </span>
              )}
              {isSorted && (
                <span aria-hidden className={classes.arrow}>
                  {sort.isDescending ? "↓" : "↑"}
                </span>
              )}
              <Edge column={column} {...props} />
            </div>
          );
        })}
      </div>
    </div>
  );
}

function Edge({ column, widthOf, onResize }: Pick<Props, "widthOf" | "onResize"> & { column: Column }) {
  const [start, setStart] = useState<{ x: number; width: number } | null>(null);
  function move(event: PointerEvent) {
    if (start) onResize(column.id, Math.max(LEAST_WIDTH, start.width + event.clientX - start.x));
  }
  return (
    <span
      aria-hidden
      draggable
      onDragStart={(event) => (event.preventDefault(), event.stopPropagation())}
      className={classes.resize}
      data-active={start !== null || undefined}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        setStart({ x: event.clientX, width: event.currentTarget.parentElement?.offsetWidth ?? widthOf(column) });
      }}
      onPointerMove={move}
      onPointerUp={() => setStart(null)}
    />
  );
}
