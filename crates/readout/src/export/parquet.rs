//! Tables as Parquet, by the crate's column writers: every column optional, zstd, row groups of [`GROUP`] rows.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FloatType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type as Node, TypePtr};

use super::table::{Cell, Column, TableWriter, Type};
use crate::{Error, Result};

/// Rows that are held until they are written together: some megabytes, some days of frames.
const GROUP: usize = 1 << 16;

/// A Parquet file in the making.
pub(super) struct Parquet<'a> {
    writer: SerializedFileWriter<&'a mut (dyn Write + Send)>,
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl<'a> Parquet<'a> {
    pub(super) fn new(out: &'a mut (dyn Write + Send), columns: Vec<Column>) -> Result<Self> {
        let fields = columns.iter().map(field).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let schema = Node::group_type_builder("trace").with_fields(fields).build().map_err(failed)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_created_by(concat!("oupn-edge ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let writer =
            SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties)).map_err(failed)?;
        Ok(Self { writer, columns, rows: Vec::new() })
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        for (index, column) in self.columns.iter().enumerate() {
            let cells = self.rows.iter().map(|row| row.get(index).unwrap_or(&Cell::Empty));
            match column.kind {
                Type::Text | Type::Json => write::<ByteArrayType>(&mut group, cells.map(bytes))?,
                Type::Whole | Type::Time => write::<Int64Type>(&mut group, cells.map(whole))?,
                Type::Real32 => write::<FloatType>(&mut group, cells.map(real32))?,
                Type::Real64 => write::<DoubleType>(&mut group, cells.map(real64))?,
                Type::Flag => write::<BoolType>(&mut group, cells.map(flag))?,
            }
        }
        group.close()?;
        self.rows.clear();
        Ok(())
    }
}

impl TableWriter for Parquet<'_> {
    fn row(&mut self, row: Vec<Cell>) -> Result<()> {
        self.rows.push(row);
        if self.rows.len() < GROUP { Ok(()) } else { self.write_group().map_err(failed) }
    }

    fn finish(&mut self) -> Result<()> {
        self.write_group().map_err(failed)?;
        self.writer.finish().map(drop).map_err(failed)
    }
}

/// Writes one column of a row group: a level says of each row whether it has a value, then come the values alone.
fn write<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, &mut (dyn Write + Send)>,
    cells: impl Iterator<Item = Option<T::T>>,
) -> Result<(), ParquetError> {
    let (mut levels, mut values) = (Vec::new(), Vec::new());
    for cell in cells {
        levels.push(i16::from(cell.is_some()));
        values.extend(cell);
    }
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    column.typed::<T>().write_batch(&values, Some(&levels), None)?;
    column.close()
}

fn bytes(cell: &Cell) -> Option<ByteArray> {
    match cell {
        Cell::Text(text) => Some(text.as_bytes().to_vec().into()),
        Cell::Json(value) => Some(value.to_string().into_bytes().into()),
        _ => None,
    }
}

fn whole(cell: &Cell) -> Option<i64> {
    match cell {
        Cell::Whole(number) => Some(i64::try_from(*number).unwrap_or(i64::MAX)),
        Cell::Time(time) => Some(time.as_microsecond()),
        _ => None,
    }
}

fn real32(cell: &Cell) -> Option<f32> {
    if let Cell::Real32(number) = cell { Some(*number) } else { None }
}

fn real64(cell: &Cell) -> Option<f64> {
    if let Cell::Real64(number) = cell { Some(*number) } else { None }
}

fn flag(cell: &Cell) -> Option<bool> {
    if let Cell::Flag(flag) = cell { Some(*flag) } else { None }
}

fn field(column: &Column) -> Result<TypePtr, ParquetError> {
    let (physical, logical) = match column.kind {
        Type::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Type::Json => (Physical::BYTE_ARRAY, Some(LogicalType::Json)),
        Type::Whole => (Physical::INT64, None),
        Type::Real32 => (Physical::FLOAT, None),
        Type::Real64 => (Physical::DOUBLE, None),
        Type::Flag => (Physical::BOOLEAN, None),
        Type::Time => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MICROS))),
    };
    let field = Node::primitive_type_builder(column.name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical);
    field.build().map(Arc::new)
}

fn failed(error: ParquetError) -> Error {
    super::write_error(std::io::Error::other(error))
}
