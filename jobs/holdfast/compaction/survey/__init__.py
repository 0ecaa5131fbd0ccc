"""Survey: find out what every changelog costs, reading little and changing nothing."""
