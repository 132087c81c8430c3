/** A table for lists of up to a few thousand rows: sorted by a click on a heading, filtered by a text. */
import { Group, Table, Text, UnstyledButton } from "@mantine/core";
import {
  type ColumnDef,
  flexRender,
  getCoreRowModel,
  getFilteredRowModel,
  getSortedRowModel,
  type SortingState,
  useReactTable,
} from "@tanstack/react-table";
import { type ReactNode, useState } from "react";

import classes from "./data-table.module.css";

type Props<Row> = {
  rows: Row[];
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  columns: ColumnDef<Row, any>[];
  label: string;
  filter?: string;
  sort?: SortingState;
  empty?: ReactNode;
};

/** A column at the right with the buttons of each row. */
export function actionsColumn<Row>(actions: (row: Row) => ReactNode): ColumnDef<Row> {
  return {
    id: "actions",
    header: () => <span className="hidden-text">Actions</span>,
    enableSorting: false,
    cell: ({ row }) => (
      <Group gap={4} justify="flex-end" wrap="nowrap">
        {actions(row.original)}
      </Group>
    ),
  };
}

const ARIA = { asc: "ascending", desc: "descending" } as const;

export function DataTable<Row>({ rows, columns, label, filter = "", sort = [], empty }: Props<Row>) {
  const [sorting, setSorting] = useState<SortingState>(sort);
  const table = useReactTable({
    data: rows,
    columns,
    state: { sorting, globalFilter: filter },
    onSortingChange: setSorting,
    getCoreRowModel: getCoreRowModel(),
    getSortedRowModel: getSortedRowModel(),
    getFilteredRowModel: getFilteredRowModel(),
    globalFilterFn: "includesString",
  });
  const shown = table.getRowModel().rows;
  if (!shown.length && empty && !filter) return <>{empty}</>;
  return (
    <div className={classes.scroll} tabIndex={0} role="region" aria-label={label}>
      <Table highlightOnHover className={classes.table} aria-label={label}>
        <Table.Thead>
          <Table.Tr>
            {table.getFlatHeaders().map((header) => {
              const sorted = header.column.getIsSorted();
              const name = flexRender(header.column.columnDef.header, header.getContext());
              return (
                <Table.Th key={header.id} aria-sort={sorted ? ARIA[sorted] : undefined}>
                  {header.column.getCanSort() ? (
                    <UnstyledButton className={classes.head} onClick={header.column.getToggleSortingHandler()}>
                      {name}
                      <span aria-hidden>{sorted ? (sorted === "asc" ? " ↑" : " ↓") : ""}</span>
                    </UnstyledButton>
                  ) : (
                    name
                  )}
                </Table.Th>
              );
            })}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {shown.map((row) => (
            <Table.Tr key={row.id}>
              {row.getVisibleCells().map((cell) => (
                <Table.Td key={cell.id}>{flexRender(cell.column.columnDef.cell, cell.getContext())}</Table.Td>
              ))}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      {!shown.length && (
        <Text c="dimmed" size="sm" p="md">
          Nothing matches.
        </Text>
      )}
    </div>
  );
}
