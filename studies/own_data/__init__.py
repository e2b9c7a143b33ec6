"""Five data sets of foreign shape, through the whole path; and one of them side by side with other packages."""
