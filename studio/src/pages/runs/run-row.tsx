/** A run in the table: a row of cells, or a card on a phone. */
import { memo } from "react";

import { ago } from "@/lib/format";
import { Duration } from "@/components/time";
import { isFinal } from "@/lib/states";
import { type CellContext, type Column, nameOf, State } from "./columns";
import type { Row } from "./run-list";
import classes from "./run-table.module.css";

export type RowProps = {
  row: Row;
  index: number;
  top: number;
  columns: Column[];
  isSelected: boolean;
  isActive: boolean;
  context: CellContext;
};

export const rowId = (id: string): string => `row-${id}`;

export const RunRow = memo(function RunRow({ row, index, top, columns, isSelected, isActive, context }: RowProps) {
  return (
    <div {...common({ row, index, isSelected, isActive })} className={classes.row} style={{ transform: `translateY(${top}px)` }}>
      <Check row={row} isSelected={isSelected} />
      {columns.map((column) => (
        <div key={column.id} role="gridcell" className={classes.cell} data-number={column.isNumber}>
          {column.cell(row, context)}
        </div>
      ))}
    </div>
  );
});

export const RunCard = memo(function RunCard({ row, index, top, columns, isSelected, isActive, context }: RowProps) {
  const own = columns.filter(({ id }) => /^(metric|parameter|tag)\./.test(id));
  return (
    <div {...common({ row, index, isSelected, isActive })} className={classes.card} style={{ transform: `translateY(${top}px)` }}>
      <Check row={row} isSelected={isSelected} />
      <div role="gridcell" className={classes.cardMain}>
        <a href={context.hrefOf(row.id)} data-run={row.id} tabIndex={-1} className={classes.name}>
          {nameOf(row)}
        </a>
        <span className={classes.cardMore}>
          {own.length
            ? own.map((column) => [column.label, " ", column.cell(row, context), "  "])
            : `${row.experiment} · ${row.target || "this process"} · ${row.submitted_by}`}
        </span>
      </div>
      <div role="gridcell" className={classes.cardSide}>
        <State row={row} />
        <span className={classes.cardMore}>
          {isFinal(row.state) || !row.started_at ? ago(row.created_at, context.now) : <Duration start={row.started_at} end={null} />}
        </span>
      </div>
    </div>
  );
});

function Check({ row, isSelected }: { row: Row; isSelected: boolean }) {
  return (
    <div role="gridcell" className={classes.check} data-check={row.id}>
      <input type="checkbox" tabIndex={-1} readOnly checked={isSelected} aria-label={`Select ${nameOf(row)}`} />
    </div>
  );
}

function common({ row, index, isSelected, isActive }: Pick<RowProps, "row" | "index" | "isSelected" | "isActive">) {
  return {
    role: "row",
    id: rowId(row.id),
    "aria-rowindex": index + 2, // the first is the heading
    "aria-selected": isSelected,
    "data-active": isActive || undefined,
    "data-row": row.id,
  };
}
